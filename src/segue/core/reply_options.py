"""What a message asks of its reply, under the name by which programs import it."""

from .message import ReplyOptions as ReplyOptions
