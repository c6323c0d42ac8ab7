"""The name of a database, as it is shown."""

from segue.core.environment import without_password
from tests.cases import cases


@cases(
    "given, shown",
    [
        ("a?password=b.db", "a?password=b.db"),
        ("postgresql://ann:s3cret@host:5432/db", "postgresql://ann@host:5432/db"),
        ("postgresql://ann:s3@/?cret@host/db", "postgresql://ann@host/db"),
        ("postgres:///db?sslpassword=s3cret&host=/run", "postgres:///db?host=/run"),
        ("postgresql://host/db?sslmode=require&password=s3cret", "postgresql://host/db?sslmode=require"),
        ("postgresql://host/db?password=s3@cret", "postgresql://host/db"),
        ("postgresql://host/db?user=ann@corp&password=s3cret", "postgresql://host/db?user=ann@corp"),
    ],
)
def test_no_password_is_shown(given: str, shown: str) -> None:
    assert without_password(given) == shown
