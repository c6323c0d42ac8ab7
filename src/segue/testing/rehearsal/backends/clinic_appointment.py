"""Patients and appointments of a clinic that does not exist."""

from random import Random

from ....core.records import Json
from .backend import CONFLICT, FORBIDDEN, NOT_FOUND, Backend, Refused

_SURNAMES = ("赵", "钱", "孙", "周", "吴", "郑")


def _patient(number: str, name: str, birth_date: str) -> Json:
    return {"patient_id": number, "name": name, "birth_date": birth_date}


def initial(seed: int) -> Json:
    """Five known patients among others that the seed makes up; free times by department and day."""
    random = Random(seed)
    patients = {
        "13800010001": _patient("P101", "王芳", "1990-05-06"),
        "13800010002": _patient("P102", "李强", "1978-12-01"),
        "13800010003": _patient("P103", "陈静", "1985-08-17"),
        "13800010004": _patient("P104", "刘洋", "2001-02-28"),
        "13800010005": _patient("P105", "张敏", "1966-10-10"),
    }
    for number in range(200, 205):
        phone = f"139{random.randint(10_000_000, 99_999_999)}"
        patients[phone] = _patient(f"P{number}", random.choice(_SURNAMES) + "某", "1970-01-01")
    free = {
        "内科": {"2026-06-08": ["09:00", "10:30", "15:00"], "2026-06-09": ["09:30"]},
        "皮肤科": {"2026-06-08": ["14:00"], "2026-06-10": ["09:00", "11:00"]},
        "骨科": {"2026-06-09": ["10:00", "16:00"]},
    }
    appointments = {
        "A1": {"patient_id": "P103", "department": "内科", "date": "2026-06-05", "time": "09:00", "status": "booked"},
        "A2": {"patient_id": "P104", "department": "骨科", "date": "2026-06-06", "time": "10:00", "status": "booked"},
    }
    return {"patients": patients, "free": free, "appointments": appointments}


def find_patient(state: Json, phone: str) -> Json:
    patient = state["patients"].get(phone)
    if patient is None:
        raise Refused(NOT_FOUND, f"没有登记手机号 {phone}")
    return {"patient_id": patient["patient_id"]}


def _by_id(state: Json, patient_id: str) -> Json:
    for patient in state["patients"].values():
        if patient["patient_id"] == patient_id:
            found: Json = patient
            return found
    raise Refused(NOT_FOUND, f"没有患者 {patient_id}")


def verify_patient(state: Json, patient_id: str, birth_date: str) -> Json:
    patient = _by_id(state, patient_id)
    if patient["birth_date"] != birth_date:
        raise Refused(FORBIDDEN, "出生日期与登记的不一致")
    return {"verified": True, "name": patient["name"]}


def list_times(state: Json, department: str, date: str) -> Json:
    times = state["free"].get(department, {}).get(date, [])
    if not times:
        raise Refused(NOT_FOUND, f"{department}在 {date} 没有空余的号")
    return {"department": department, "date": date, "times": list(times)}


def book_appointment(state: Json, patient_id: str, department: str, date: str, time: str) -> Json:
    _by_id(state, patient_id)
    times = state["free"].get(department, {}).get(date, [])
    if time not in times:
        raise Refused(CONFLICT, f"{department}在 {date} {time} 没有号")
    times.remove(time)
    number = f"A{len(state['appointments']) + 1}"
    appointment = {"patient_id": patient_id, "department": department, "date": date, "time": time}
    state["appointments"][number] = appointment | {"status": "booked"}
    return {"appointment_id": number, "department": department, "date": date, "time": time}


def find_appointment(state: Json, patient_id: str) -> Json:
    _by_id(state, patient_id)
    for number, appointment in state["appointments"].items():
        if appointment["patient_id"] == patient_id and appointment["status"] == "booked":
            return {"appointment_id": number} | {key: appointment[key] for key in ("department", "date", "time")}
    raise Refused(NOT_FOUND, "没有可以取消的预约")


def cancel_appointment(state: Json, patient_id: str, appointment_id: str) -> Json:
    appointment = state["appointments"].get(appointment_id)
    if appointment is None or appointment["patient_id"] != patient_id:
        raise Refused(NOT_FOUND, f"没有预约 {appointment_id}")
    if appointment["status"] != "booked":
        raise Refused(CONFLICT, f"预约 {appointment_id} 已经取消")
    appointment["status"] = "cancelled"
    state["free"].setdefault(appointment["department"], {}).setdefault(appointment["date"], []).append(
        appointment["time"]
    )
    return {"appointment_id": appointment_id, "status": "cancelled"}


_APIS = (find_patient, verify_patient, list_times, book_appointment, find_appointment, cancel_appointment)
CLINIC_APPOINTMENT = Backend("clinic_appointment", initial, {function.__name__: function for function in _APIS})
