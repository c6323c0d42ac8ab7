"""The errors of message files in Chinese, by their English template."""

from collections.abc import Mapping

FILES: Mapping[str, str] = {
    "The message has {count} files; the limit is {most}: send fewer, or raise SEGUE_MESSAGE_FILES.": (
        "消息带有 {count} 个文件，最多 {most} 个：请减少文件，或增大 SEGUE_MESSAGE_FILES。"
    ),
    "The message's files have {size} bytes; the limit is {most}: send fewer, or raise SEGUE_MESSAGE_FILES_MB.": (
        "消息的文件共 {size} 字节，最多 {most} 字节：请减少文件，或增大 SEGUE_MESSAGE_FILES_MB。"
    ),
    "There is no upload {upload_id}: it was sent with a message, or is older than a day. Upload the file again.": (
        "没有上传的文件 {upload_id}：它已随消息发送，或已超过一天。请重新上传。"
    ),
    "A file is {kind}: give a path, or its name and its content as (str, bytes).": (
        "文件的类型是 {kind}：请给出路径，或以 (str, bytes) 给出名称和内容。"
    ),
    "The file {path} cannot be read: {reason}.": "文件 {path} 无法读取：{reason}。",
    "The file {name} is empty.": "文件 {name} 是空的。",
    "The file {name} has more than {most} bytes: send a smaller one, or raise SEGUE_FILE_MB.": (
        "文件 {name} 超过 {most} 字节：请发送更小的文件，或增大 SEGUE_FILE_MB。"
    ),
    "The file {name} is of a type that models do not read: send text, PNG, JPEG, GIF, WebP or PDF.": (
        "模型无法读取文件 {name} 的类型：请发送文本、PNG、JPEG、GIF、WebP 或 PDF。"
    ),
    "The model {model} does not accept {kinds}: leave out {name}, choose another model, or, if it does, set "
    'accepts = ["{kind}"] on the agent, or SEGUE_ACCEPTS={kind}.': (
        "模型 {model} 不接受这类文件（{kinds}）：请去掉 {name}，或换一个模型；如果它其实接受，请在智能体上设置 "
        'accepts = ["{kind}"]，或设置 SEGUE_ACCEPTS={kind}。'
    ),
    "Files cannot join an unfinished task: wait for its answer, or cancel it, then send them again.": (
        "文件不能加入未完成的任务：请等它回答，或取消它，再重新发送。"
    ),
    "{name} is '{text}': set it to image, pdf, image,pdf or text.": (
        "{name} 的值是“{text}”：请设为 image、pdf、image,pdf 或 text。"
    ),
    "{url} is an address: Segue fetches none. Send the content as a data: URL.": (
        "{url} 是网址：Segue 不会获取它。请以 data: URL 发送内容。"
    ),
    "A data: URL of a file is not valid base64: write data:MEDIA/TYPE;base64,CONTENT.": (
        "文件的 data: URL 不是有效的 base64：请写成 data:类型;base64,内容。"
    ),
    "The files of messages in {folder} cannot be read or written ({reason}): check the disk and the permissions, "
    "then try again.": "{folder} 中的消息文件无法读写（{reason}）：请检查磁盘和权限，然后重试。",
    "The file has no content: send it as a data: URL, or upload it.": "文件没有内容：请以 data: URL 发送，或上传它。",
    "There is no file {file_id}: it was deleted, or is older than a day. Upload it again.": (
        "没有文件 {file_id}：它已被删除，或已超过一天。请重新上传。"
    ),
    "The files that the messages name have more than {most} bytes: leave some out, or raise {setting}.": (
        "消息指明的文件超过 {most} 字节：请去掉一些，或调高 {setting}。"
    ),
}
