"""The errors of PostgreSQL databases in Chinese."""

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "cannot be reached: check that the server runs and that host and port are right": (
        "无法连接：请确认服务器正在运行，并检查主机和端口"
    ),
    "refuses the password or the user: check both; the password is in PGPASSWORD, ~/.pgpass or the URL": (
        "拒绝了密码或用户：请检查用户和密码；密码取自 PGPASSWORD、~/.pgpass 或网址"
    ),
    "does not exist: create it with `createdb`, or name another one with --db": (
        "不存在：请用 `createdb` 创建，或用 --db 指定其他数据库"
    ),
    "has no connection left: close others, or raise the server's max_connections": (
        "没有空闲的连接：请关闭其他连接，或增大服务器的 max_connections"
    ),
    "may not be used by this user: grant it CREATE on the database, or let the owner of the schema open it": (
        "当前用户无权使用：请授予它数据库的 CREATE 权限，或由模式的所有者打开"
    ),
    "is read-only: name the primary server with --db, or turn default_transaction_read_only off": (
        "是只读的：请用 --db 指定主服务器，或关闭 default_transaction_read_only"
    ),
    "has no room left: free some space on the server's disk, then resume": (
        "没有剩余空间：请释放服务器的磁盘空间，然后继续"
    ),
    "has no memory left: free some on the server, then resume": "内存不足：请在服务器上释放内存，然后继续",
    "has the queue of a newer procrastinate than the one that is installed: install the version of that package that "
    "the other processes have": "的队列来自比已安装的更新的 procrastinate：请安装与其他进程相同的版本",
    "is locked by another process: end that process's transaction, then resume": (
        "被另一个进程锁定：请结束该进程的事务，然后继续"
    ),
    "did not answer in time: raise statement_timeout, then resume": "未能及时应答：请增大 statement_timeout，然后继续",
    "lacks a part of Segue's schema: restore it from a copy, or name another one with --db": (
        "缺少 Segue 的部分结构：请从副本恢复，或用 --db 指定其他数据库"
    ),
    "cannot be read or written: check the server's disk, then resume": "无法读写：请检查服务器的磁盘，然后继续",
    "is damaged: restore it from a copy, or name another one with --db": (
        "已损坏：请从副本恢复，或用 --db 指定其他数据库"
    ),
    'has a schema "segue" of another program: name another one with --db': (
        "已有其他程序的模式 segue：请用 --db 指定其他数据库"
    ),
}

SENTENCES: Mapping[str, str] = {
    "The database's URL is not valid: write it as postgresql://USER@HOST:PORT/DATABASE, with special "
    "characters as %XX.": ("数据库的网址无效：请写成 postgresql://用户@主机:端口/数据库，特殊字符写作 %XX。"),
    "The server of the database {path} runs PostgreSQL {found} and Segue needs {oldest} or newer: upgrade the "
    "server, or name another one with --db.": (
        "数据库 {path} 的服务器版本是 PostgreSQL {found}，Segue 需要 {oldest} 或更新的版本：请升级服务器，"
        "或用 --db 指定其他服务器。"
    ),
    "The database {path} has the encoding {encoding} and Segue needs UTF8: create one with "
    "`createdb --encoding=UTF8 --template=template0`, and name it with --db.": (
        "数据库 {path} 的编码是 {encoding}，Segue 需要 UTF8：请用 `createdb --encoding=UTF8 --template=template0` "
        "创建一个，并用 --db 指定它。"
    ),
    "The connection to the database {path} was lost while it stored something, and it is not known "
    "whether that was stored: resume the task.": (
        "与数据库 {path} 的连接在保存时中断，无法确定是否已经保存：请继续该任务。"
    ),
    "The text holds a NUL character, which PostgreSQL cannot store: leave it out.": (
        "文本中有 NUL 字符，PostgreSQL 无法保存：请去掉它。"
    ),
}
