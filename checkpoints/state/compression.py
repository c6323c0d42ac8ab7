"""Compression of stored state, with a dictionary of its most frequent content."""

import zlib


class Undecodable(Exception):
    """Stored bytes are not what was written; the message names the symptom."""


_LEAST = 100
"""Bytes from which on compression is tried."""
_LEVEL = 3
_PLAIN, _SHARED = "+zlib", "+zdict"
"""Mark the type of compressed state: without a dictionary, as older versions did, and with it."""

# What is stored with this dictionary is read with it: another one needs a mark of its own.
_DICTIONARY = b"".join(
    (
        b"\xa4name\xa9arguments\xa7call_id\xa7step_id\xa7success\xa5error\xa3ref\xa6result\xa6action\xa6params\xa8approved",
        b"\xa5steps\xa4step\xa5phase\xa9execution\xaageneration\xabdescription\xa7history\xa7command\xa7thought\xa7observe",
        b"\xa4mode\xa6answer\xa9reasoning\xa4took\xa6status\xa4done\xa2ok\xa4text\xa7outputs\xabaction_type\xa6output",
        b"\xc8\x05\x94\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content\xda\x03\xb1additional_kwargs\x80",
        b"\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xd9$\xb3model_validate_json",
        b"\xc8\x05\x94\xbclangchain_core.messages.tool\xabToolMessage\x89\xa7content\xda\x03\xb1additional_kwargs\x82\xa3ref",
        b"\xa3key\x83\xa7task_id\xd9$\xa5scope\xd9$\xa5index\x00\xb1response_metadata\x80\xa4type\xa4tool\xa4name\xc0\xa2id\xd9$",
        b"\xactool_call_id\xa8call_\xa8artifact\xc0\xa6status\xa7success\xb3model_validate_json",
        b"\xc8\x05\x94\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content\xa0\xb1additional_kwargs\x80",
        b"\xb1response_metadata\x80\xa4type\xa2ai\xa4name\xc0\xa2id\xd9$\xaatool_calls\x91\x84\xa4name\xa4args\x81",
        b"\xa2id\xa4type\xa9tool_call\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0\xb3model_validate_json",
        b"\xb2branch:to:SCHEDULE\xb6branch:to:EXECUTE_STEP\xb3branch:to:MAKE_PLAN\xb3branch:to:DECOMPOSE",
        b"\xaebranch:to:PLAN\xb0branch:to:REMEND\xb0branch:to:direct\xb4branch:to:plan_react",
        b"\x87\xa1v\x04\xa2ts\xd9 20T:.+00:00\xa2id\xd9$1f1-6-8-\xaechannel_values\x8b\xaaassignment\xc0",
        b"\xa7task_id\xd9$",
        b"\xa6nested\xc2\xa9objective\xa8language\xa2en\xaastarted_at\xcbA\xda\xa5usage\x80\xa6result\x87",
        b"\xa7success\xc3\xa6answer\xda\x01\xa4mode\xa5react\xa9reasoning\x83\xa4text\xb7<thinking>\n\n</thinking>",
        b"\xabtotal_steps\x01\xaatools_used\x91\xa7history\x90\xa5usage\x83\xa5input\x00\xa6output\x00\xa5calls",
        b"\x01\xb0unknown_outcomes\x90",
        b"\xa4mode\xa5react\xa7gave_up\xa0\xb5branch:to:SELECT_MODE\xc0\xb0channel_versions\xde\x00\x10",
        b"\xa9__start__\xa800000\xa8messages\xa800000\xaaassignment\xa800000\xaebranch:to:INIT\xa800000\xa7task_id",
        b"\xa800000\xa6nested\xa800000\xa9objective\xa800000\xa8language\xa800000\xaastarted_at\xa800000\xa5usage",
        b"\xa800000\xa6result\xa800000\xa4mode\xa800000\xa7gave_up\xa800000\xb5branch:to:SELECT_MODE\xa800000",
        b"\xafbranch:to:react\xa800000\xb0branch:to:FINISH\xa800000",
        b"\xadversions_seen\x86\xa9__input__\x80\xa9__start__\x81\xa9__start__\xa800000\xa4INIT\x81",
        b"\xaebranch:to:INIT\xa800000\xabSELECT_MODE\x81\xb5branch:to:SELECT_MODE\xa800000\xa5react\x81",
        b"\xafbranch:to:react\xa800000\xa6FINISH\x81\xb0branch:to:FINISH\xa800000",
        b"\xb0updated_channels\x94\xb0branch:to:FINISH\xa7gave_up\xa8messages\xa6result",
        b"\x87\xa1v\x04\xa2ts\xd9 20T:.+00:00\xa2id\xd9$1f1-6-8-\xaechannel_values\x8b\xaaassignment\xc0",
        b"\xa7task_id\xd9$",
        b"\xa6nested\xc3\xa9objective\xa8language\xa2en\xaastarted_at\xcbA\xda\xa5usage\x83\xa5input\x00\xa6output",
        b"\x00\xa5calls\xcc\xa6result\xc0\xa5notes\x00\xa9iteration\x01\xa8trace_id\xd9$\xa5spent\xa0\xa4plan\x90",
        b"\xa8decision\x8c\xa7observe\xa0\xa7thought\xa0\xabaction_type\xa9CALL_TOOL\xaatool_calls\x91\xa4plan\x90",
        b"\xa5notes\xa0\xa9diagnosis\xa0\xa6answer\xa0\xa7step_id\xa0\xb2step_status_update\x90\xa4said\xa0",
        b"\xaacontrol_id\xa0",
        b"\xa5calls\x91\x85\xa5index\x00\xa4name\xa9arguments\x81\xa7call_id\xa7step_id\xa0\xa3ref\xa6result\x81",
        b"\xa7success",
        b"\xa5calls\x90\xa8outcomes\x90\xaatool_calls\x00\xa7repairs\x00\xb3branch:to:CALL_TOOL\xc0",
        b"\xb2branch:to:CALL_LLM\xc0\xb0channel_versions\xde\x00\x19",
        b"\xa9__start__\xa800000\xa8messages\xa800000\xaaassignment\xa800000\xaebranch:to:INIT\xa800000\xa7task_id",
        b"\xa800000\xa6nested\xa800000\xa9objective\xa800000\xa8language\xa800000\xaastarted_at\xa800000\xa5usage",
        b"\xa800000\xa6result\xa800000\xa5notes\xa800000\xa9iteration\xa800000\xa8trace_id\xa800000\xa5spent",
        b"\xa800000\xa4plan\xa800000\xa7records\xa800000\xa8decision\xa800000\xa5calls\xa800000\xa8outcomes",
        b"\xa800000\xaatool_calls\xa800000\xa7repairs\xa800000\xafbranch:to:INPUT\xa800000\xb2branch:to:CALL_LLM",
        b"\xa800000\xb3branch:to:CALL_TOOL\xa800000\xb0branch:to:ANSWER\xa800000",
        b"\xadversions_seen\x87\xa9__input__\x80\xa9__start__\x81\xa9__start__\xa800000001\xa4INIT\x81",
        b"\xaebranch:to:INIT\xa800000\xa5INPUT\x81\xafbranch:to:INPUT\xa800000\xa8CALL_LLM\x81",
        b"\xb2branch:to:CALL_LLM\xa800000\xa9CALL_TOOL\x81\xb3branch:to:CALL_TOOL\xa800000\xa6ANSWER\x81",
        b"\xb0branch:to:ANSWER\xa800000",
        b"\xb0updated_channels\x96\xb0branch:to:ANSWER\xaebranch:to:PLAN\xafbranch:to:INPUT\xb3branch:to:CALL_TOOL",
        b"\xb2branch:to:CALL_LLM\xa5calls\xa8decision\xa9iteration\xa8messages\xa8outcomes\xa4plan\xa7records",
        b"\xa6result\xaatool_calls\xa8trace_id\xa5usage",
    )
)


def compressed(kind: str, data: bytes) -> tuple[str, bytes]:
    """The type and bytes of a stored value, compressed if that makes it smaller."""
    if len(data) < _LEAST:
        return kind, data
    packer = zlib.compressobj(_LEVEL, zdict=_DICTIONARY)
    smaller = packer.compress(data) + packer.flush()
    name, plus, rest = kind.partition("+")
    return (f"{name}{_SHARED}{plus}{rest}", smaller) if len(smaller) < len(data) else (kind, data)


def is_compressed(kind: str) -> bool:
    return _PLAIN in kind or _SHARED in kind


def decompressed(kind: str, data: bytes) -> tuple[str, bytes]:
    """The type and bytes of a stored value as they were before they were compressed.

    Raises:
        Undecodable
    """
    try:
        if _SHARED in kind:
            unpacker = zlib.decompressobj(zdict=_DICTIONARY)
            return kind.replace(_SHARED, "", 1), unpacker.decompress(data) + unpacker.flush()
        return kind.replace(_PLAIN, "", 1), zlib.decompress(data) if _PLAIN in kind else data
    except zlib.error as error:
        raise Undecodable("its bytes have changed since they were stored") from error
