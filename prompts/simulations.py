"""The errors of simulated conversations in Chinese, by their English template."""

from collections.abc import Mapping

SIMULATIONS: Mapping[str, str] = {
    "--say gives lines to scripted_user, and the user is {mode}: add --user scripted_user, or leave it out.": (
        "--say 是给 scripted_user 的台词，而当前用户是 {mode}：请加上 --user scripted_user，或去掉 --say。"
    ),
    "scripted_user has nothing to say: give it lines with --say or `script`.": (
        "scripted_user 没有台词：请用 --say 或 `script` 提供。"
    ),
    "The file {file} cannot be written: {reason}.": "文件 {file} 无法写入：{reason}。",
    "{mode} is a person, who cannot take part in a batch: leave --n out.": (
        "{mode} 是真人，不能参加批次：请去掉 --n。"
    ),
}
