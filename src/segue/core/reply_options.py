"""The former place of `message.ReplyOptions`, which programs still import it from."""

from .message import ReplyOptions as ReplyOptions
