"""The tasks that wait for workers, counted for quotas."""

from segue.core.quotas import Owner, Quotas
from segue.core.records import NewTask

from ..ports import Connection

LOCK = "segue.queue"
"""What a transaction locks that counts them."""

_WAIT = """
    SELECT count(*) AS of_tenant, coalesce(sum(CASE WHEN user_id = :user_id THEN 1 ELSE 0 END), 0) AS of_user
    FROM tasks WHERE status = 'pending' AND copy_of IS NULL AND CASE WHEN :prefix = ''
        THEN thread_id NOT LIKE '%:%' ELSE substr(thread_id, 1, length(:prefix)) = :prefix END
"""


def check_queue(connection: Connection, new: NewTask, quotas: Quotas) -> None:
    """Refuse a task where as many of its user or its tenant have not begun as may wait.

    Raises:
        OverQuota.
    """
    connection.lock(LOCK)
    owner = Owner.of(new.thread_id, new.user_id)
    prefix = f"{owner.tenant}:" if owner.tenant else ""
    row = connection.execute(_WAIT, {"prefix": prefix, "user_id": new.user_id}).fetchone()
    quotas.check_queue(row["of_user"], row["of_tenant"])
