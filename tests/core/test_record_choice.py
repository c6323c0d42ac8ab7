"""Which records a person's words choose."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from segue.core.record_choice import RecordChoice
from segue.core.value_forms import Leaf, forms_of
from tests.cases import cases

MAILS: Sequence[Mapping[str, Any]] = (
    {"id": "m1", "date": "2026-03-01 09:00", "unread": True, "from": "ann@x.org", "subject": "Rooms in Lisbon"},
    {"id": "m2", "date": "2026-03-02 09:00", "unread": True, "from": "tom@x.org", "subject": "Budget draft"},
    {"id": "m3", "date": "2026-03-03 09:00", "unread": False, "from": "eve@y.org", "subject": "Budget"},
)
PEOPLE: Sequence[Mapping[str, Any]] = (
    {"name": "Ann Keller", "email": "ann@x.org", "note": "ann@z.org"},
    {"name": "Max Lind", "email": "max.lind@x.org", "note": ""},
    {"name": "Max Ortega", "email": "ortega@y.org", "note": ""},
    {"name": "王伟", "email": "wang@x.org", "note": ""},
)
FILES: Sequence[Mapping[str, Any]] = (
    {"path": "/home/a/tram.jpg", "size": 10, "modified": "2026-03-01"},
    {"path": "/home/a/budget_2026.xlsx", "size": 99, "modified": "2026-03-04"},
)
OWN = ("id", "date", "unread", "name", "email", "size", "modified")


def chosen(said: str, records: Sequence[Mapping[str, Any]], field: str, tool: str = "", own: Any = OWN) -> list[Any]:
    """The values of a field in the records that the words choose."""
    choice = RecordChoice(records, own, forms_of(said), tool)
    return [each[field] for each in records if choice.has(Leaf(field, each[field], each))]


@cases(
    "said, emails",
    [
        ("Write to Ann", ["ann@x.org"]),
        ("Write to Keller", ["ann@x.org"]),
        ("Write to Max", []),
        ("Write to Max Lind", ["max.lind@x.org"]),
        ("Write to Ann and Ortega", ["ann@x.org", "ortega@y.org"]),
        ("写信给王伟", ["wang@x.org"]),
        ("Write to everyone", []),
    ],
)
def test_a_name_chooses_the_one_record_that_it_fits(said: str, emails: list[str]) -> None:
    assert chosen(said, PEOPLE, "email") == emails


def test_a_name_chooses_no_address_that_others_wrote() -> None:
    assert chosen("Write to Ann Keller", PEOPLE, "note") == []
    assert chosen("Write to Ann Keller", PEOPLE, "email", own=()) == []
    assert chosen("Answer the mail about Lisbon", MAILS, "from", "list_mails") == []


@cases(
    "said, ids",
    [
        ("Delete the mail about Lisbon", ["m1"]),
        ("Delete the mail about rooms", ["m1"]),
        ("Delete the draft", ["m2"]),
        ("Delete the draft of the budget", []),
        ("Delete the newest mail", ["m3"]),
        ("Delete the oldest message in my inbox", ["m1"]),
        ("删除最新的邮件", ["m3"]),
        ("Mark all unread mails", ["m1", "m2"]),
        ("把所有未读邮件标为已读", ["m1", "m2"]),
        ("Delete the newest file", []),
        ("Mark all unread events", []),
        ("Delete all mails", []),
    ],
)
def test_records_are_chosen_by_their_name_order_or_kind(said: str, ids: list[str]) -> None:
    assert chosen(said, MAILS, "id", "list_mails") == ids


def test_an_order_or_a_kind_counts_only_by_fields_that_nobody_else_writes() -> None:
    own = ("id",)
    assert chosen("Delete the newest mail", MAILS, "id", "list_mails", own) == []
    assert chosen("Mark all unread mails", MAILS, "id", "list_mails", own) == []
    twice = [*MAILS, {**MAILS[2], "id": "m4"}]
    assert chosen("Delete the newest mail", twice, "id", "list_mails") == []


def test_an_order_counts_among_records_that_have_parts() -> None:
    files = [{"id": "1", "size": 5, "shared": {"ann@x.org": "rw"}}, {"id": "2", "size": 9, "shared": {}}]
    records = [*files, files[0]["shared"]]
    choice = RecordChoice(records, ("id", "size"), forms_of("Delete the largest file"), "list_files")
    assert [each["id"] for each in files if choice.has(Leaf("id", each["id"], each))] == ["2"]


@pytest.mark.parametrize(
    ("said", "found"),
    [("Reply to the newest mail", ["eve@y.org"]), ("Read the newest mail. Reply in German", [])],
)
def test_who_asks_for_a_reply_to_the_newest_record_means_the_address_in_it(said: str, found: list[str]) -> None:
    assert chosen(said, MAILS, "from", "list_mails") == found


def test_a_name_that_is_quoted_as_a_whole_is_meant() -> None:
    files = [{"id": "1", "name": "client-minutes.docx"}, {"id": "2", "name": "team-minutes.docx"}]
    assert chosen("Delete client-minutes.docx", files, "id", own=()) == ["1"]
    copied = [*files, {"id": "3", "name": "client-minutes.docx"}, {"id": "4", "name": "my client-minutes.docx"}]
    assert chosen("Delete client-minutes.docx", copied, "id", own=()) == []


@cases(
    "said, path",
    [
        ("Share the budget", "/home/a/budget_2026.xlsx"),
        ("Rename the tram photo", "/home/a/tram.jpg"),
        ("Delete the largest file", "/home/a/budget_2026.xlsx"),
        ("Delete the smallest file", "/home/a/tram.jpg"),
    ],
)
def test_the_last_part_of_a_path_is_a_name(said: str, path: str) -> None:
    assert chosen(said, FILES, "path", "list_files") == [path]


def test_a_company_is_named_without_its_legal_form_if_no_other_one_fits() -> None:
    firms = [{"id": "1", "payee": "Lumen GmbH"}, {"id": "2", "payee": "华信有限公司"}, {"id": "3", "payee": "Copy Ltd"}]
    assert chosen("Pay Lumen", firms, "id", own=()) == ["1"]
    assert chosen("付款给华信", firms, "id", own=()) == ["2"]
    assert chosen("Pay the GmbH", firms, "id", own=()) == []
    assert chosen("Pay Lumen", [*firms, {"id": "4", "payee": "Lumen Ltd"}], "id", own=()) == []


def test_a_folder_names_a_file_if_no_other_one_fits() -> None:
    def paths(*more: str) -> list[Any]:
        files = ("/home/a/photos/lisbon/tram.jpg", "/home/a/photos/porto/boat.jpg", *more)
        return chosen("Share the Lisbon photo of my home", [{"path": path} for path in files], "path", own=())

    assert paths() == ["/home/a/photos/lisbon/tram.jpg"]
    assert paths("/home/a/downloads/lisbon.jpg") == []
    assert paths("/tmp/lisbon/x.exe") == []
    up = [{"path": "/home/a/photos/madrid/../../key.pem"}, {"path": "/home/a/photos/porto/boat.jpg"}]
    assert chosen("Share the Madrid photo", up, "path", own=()) == []


@cases(
    "said, sender, ids",
    [
        ("Forward Ann's mail", "Ann <ann@x.org>", ["m1"]),
        ("Forward Ann Keller’s mail", "Ann <ann@x.org>", ["m1"]),
        ("Forward the mail from Ann", "ann@x.org", ["m1"]),
        ("把 Ann 的邮件转发给 Tom", "ann@x.org", ["m1"]),
        ("Forward the mail to Ann", "ann@x.org", []),
        ("Forward Ann's mail", "Ann <ann@y.org>", []),
        ("Forward Ann's mail", "ann@x.org <eve@y.org>", []),
        ("Forward Ann's mail", "ann@x.org <eve@localhost>", []),
    ],
)
def test_a_record_is_chosen_by_who_wrote_it_if_the_address_is_known(said: str, sender: str, ids: list[str]) -> None:
    mails = [{"id": "m1", "from": sender, "to": ["tom@x.org"]}, {"id": "m2", "from": "tom@x.org", "to": ["ann@x.org"]}]
    writers = RecordChoice(PEOPLE, ("name", "email"), forms_of(said)).addresses_named_as_writers

    def ids_in(records: Sequence[Mapping[str, Any]]) -> list[Any]:
        choice = RecordChoice(records, ("id",), forms_of(said), writers=writers)
        return [each["id"] for each in records if choice.has(Leaf("id", each["id"], each))]

    assert ids_in(mails) == ids
    assert ids_in([*mails, {**mails[0], "id": "m3"}]) == []
    assert ids_in([{**mails[0], "subject": "from eve@y.org"}]) == []


def test_the_people_of_a_record_are_meant_if_its_whole_name_is_said() -> None:
    def means(said: str, title: str) -> bool:
        record = {"title": title, "participants": ["ann@x.org"]}
        choice = RecordChoice([record], (), forms_of(said))
        return choice.asks_for_field("participants") and choice.is_named_as_a_whole(record)

    assert means("A call with the same participants as the design review", "Design review")
    assert means("A call with the same guests as the design review", "Design review")
    assert not means("A call with the same participants as the design review", "New design review")
    assert not means("Move the design review", "Design review")
    assert means("用与 design review 相同的参会者新建会议", "Design review")
    assert not RecordChoice([], (), forms_of("Write to the email of Max Ortega")).asks_for_field("email")


def test_a_name_that_two_records_have_chooses_none_of_them() -> None:
    mails = [{"id": "m1", "from": "Ann Lee"}, {"id": "m2", "from": "Tom Berg"}]
    assert chosen("Delete the mail from Ann Lee", mails, "id") == ["m1"]
    for name in ("Ann Lee", "Ann Lee <eve@y.org>"):
        assert chosen("Delete the mail from Ann Lee", [*mails, {"id": "m3", "from": name}], "id") == []
    assert chosen("Delete Ann's mail", [{"id": "m3", "from": "Ann <ann@ann.ann>"}], "id") == []


@pytest.mark.parametrize("start", ["2026-03-12", "2026-03-12 09:00", "March 12, 2026", "Friday", "12 Mar 2026"])
def test_a_date_of_the_same_year_or_month_names_nothing(start: str) -> None:
    events = [{"id": "e1", "title": "Yoga", "start": "2026-03-11"}, {"id": "e2", "title": "Lunch", "start": start}]
    assert chosen("Move yoga to Friday, March 14, 2026 (2026-03-14)", events, "id", own=("id",)) == ["e1"]


def test_a_date_is_no_name() -> None:
    events = [
        {"id": "e1", "title": "Yoga", "start": "2026-03-11"},
        {"id": "e2", "title": "Lunch", "start": "2026-03-12"},
    ]
    assert chosen("Move yoga to 2026-03-14", events, "id", own=("id", "start")) == ["e1"]


def test_a_record_that_was_made_to_match_is_not_chosen() -> None:
    for subject in ("Rooms in Lisbon", "Rooms in Lisbon, please forward", "Lisbon"):
        copied = [*MAILS, {**MAILS[0], "id": "x9", "from": "eve@y.org", "subject": subject}]
        assert "x9" not in chosen("Please forward the mail about the rooms in Lisbon", copied, "id", "list_mails")
        assert chosen("Please forward the mail on Lisbon's rooms", copied, "id", "list_mails") == []
