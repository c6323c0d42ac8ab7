"""What a person says of themselves in a message that holds longer than the message, found by rules."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..prompts.catalogue import only_closed

MOST_CHARS = 4_000
"""Characters at the beginning of a message that are read: more is pasted."""
LONGEST = 200
"""Characters of a statement."""


@dataclass(frozen=True)
class Statement:
    """A clause of a message in its own words, and what it is about: a newer one of a subject replaces the older."""

    subject: str
    text: str


def find_statements(message: str) -> list[Statement]:
    """The statements of a message, in their order; the last one of each subject."""
    found: dict[str, Statement] = {}
    for sentence in own_sentences(message):
        speaks_of_self = False
        for clause in _clauses(sentence):
            text = clause.strip(_EDGES)
            subject = _subject(text, speaks_of_self) if 0 < len(text) <= LONGEST else ""
            speaks_of_self = bool(subject)
            if subject:
                found[subject] = Statement(subject, _LEAD.sub("", text))
    return [*found.values()]


def own_sentences(message: str) -> list[str]:
    """The sentences that are the writer's own: nothing quoted, nothing pasted below a line that announces it."""
    lines: list[str] = []
    text = _QUOTED.sub(" ", only_closed(message[:MOST_CHARS].replace("’", "'")))
    for line in text.splitlines():
        if line.lstrip().startswith((">", "|", "#")):
            continue
        if _ANNOUNCES.search(line):
            break
        lines.append(line)
    plain = (" ".join(line.split()) for line in lines)
    return [each.strip() for line in plain for each in _SENTENCE.findall(line) if each.strip()]


_QUOTED = re.compile(
    r"```.*?(?:```|$)|`[^`]*`|“[^”]*”|\"[^\"]*\"|「[^」]*」|『[^』]*』|(?<!\w)'[^']*'(?!\w)|\0.*", re.DOTALL
)
_ANNOUNCES = re.compile(r"[:：](?:\s|$)|[:：](?=我)")
"""What follows a colon is given, or said by somebody else."""
_SENTENCE = re.compile(r"[^.!?。！？；;]+(?:\.(?=\w)[^.!?。！？；;]*)*[.!?。！？；;]*")
_CLAUSE = re.compile(r"[,，、]| (?:and|but|so) (?=i\b|i'|my\b)", re.IGNORECASE)
_EDGES = " \t.!。！；;,，、()（）-*"
_QUESTION = re.compile(r"[?？] ?$|[吗呢么]$|是不是|有没有|会不会|能不能|right$", re.IGNORECASE)


def _clauses(sentence: str) -> Iterator[str]:
    """The clauses of a sentence; of a question the last one asks."""
    if _UNREAL.match(sentence):
        return
    clauses = _CLAUSE.split(sentence)
    yield from (clause for clause in clauses if not _QUESTION.search(clause))


_UNREAL = re.compile(
    r"(?:if|when|whenever|suppose|imagine|assume|pretend|unless|say|tell|write|translate|he|she|they)\b"
    r"|according to (?!me\b)|as (?!i\b)(?:[\w'-]+ ){1,6}?(?:wrote|writes|said|says|put it|reported)\b"
    r"|(?:the|an?|my|our|your|his|her|their|one) (?:[\w'-]+ ){1,4}?(?:wrote|writes|said|says) ?,"
    r"|(?:正?如|就像|按照?)(?!我).{1,12}?(?:所写|所说|所言|写的|说的|写道)"
    r"|(?:如果|假如|假设|要是|万一|写|翻译|他|她|当)",
    re.IGNORECASE,
)
"""What begins a condition, an order to write something, or what others said."""
_LEAD = re.compile(
    r"^(?:(?:and|but|because|since|as|so|also|well|oh|hi|hello|hey|actually|please|by the way|btw|fyi|note|remember|"
    r"just so you know|please note|keep in mind|for the record|that)\b[ ,:]*)+"
    r"|^(?:因为|由于|另外|对了|顺便说一下|请记住|记住|你好|您好|但是?|而且|其实|顺便)",
    re.IGNORECASE,
)


def _subject(clause: str, speaks_of_self: bool) -> str:
    """What a clause says of its writer is about; empty where it says nothing that holds."""
    text = _LEAD.sub("", clause)
    if speaks_of_self and _CONTINUES.match(text):
        text = f"我{text}"
    for pattern, subject in _RULES:
        if (said := pattern.match(text)) and (named := _named(subject, said)):
            return named
    return ""


def _named(subject: str, said: "re.Match[str]") -> str:
    about = said.groupdict().get("about")
    if about is None:
        return subject
    if not (words := _TAIL.sub("", about.lower()).strip(_EDGES)):
        return ""
    if subject in _BY_HEAD:
        words = words.rpartition("的")[2] if "的" in words else _BEFORE.split(words)[0].split()[-1]
    return f"{subject}: {_PLURAL.sub('', words)}"


_CONTINUES = re.compile(r"也|是|在|住|有|叫|会|不|喜欢|讨厌|今年|特别|来自")
_BY_HEAD = ("prefers",)
"""Subjects that go by the noun of what is said: who prefers window seats prefers no aisle seats."""
_TAIL = re.compile(
    r" ?\b(?:any ?more|now|very much|a lot|too|as well|these days|again|at all|the most|best|last \w+)$|了$|的$"
)
_BEFORE = re.compile(r" (?:to|over|than|with|in|on|near|at|for|from|without|that|instead|rather|when|if)\b")
_PLURAL = re.compile(r"(?<=[a-rt-z])s$")

# The rules: what a clause begins with, and the subject. `about` is what is liked, eaten, and so on.

_I = (
    r"i(?:'m| am|'ve| have)?(?: (?:also|really|still|actually|just|always|usually|generally|normally|absolutely|"
    r"strongly|currently|now|only|mostly|severely|highly|very|extremely|quite|particularly|especially|"
    r"recently|no longer|don't|do not|never|not|can't|cannot|have))*"
)
_NOT_HERE = r"(?!(?:it|this|that|these|those|the|your|you|how|what|when|him|her|them|to (?:know|see|ask|have|get))\b)"
_NOUNS = (
    r"(?:nurse|doctor|teacher|engineer|developer|programmer|student|lawyer|designer|writer|journalist|chef|pilot|"
    r"driver|accountant|scientist|researcher|manager|consultant|artist|musician|photographer|farmer|electrician|"
    r"plumber|architect|dentist|pharmacist|freelancer|pensioner|professor|translator|librarian)"
)
_OWN = (
    r"(?:birthday|date of birth|wife|husband|partner|son|daughter|child|children|kids|mother|father|mom|mum|dad|"
    r"brother|sister|boss|dog|cat|home town|hometown|home airport|"
    r"native language|mother tongue|(?:shoe|shirt|clothing|dress|ring) size|time ?zone|company|job|profession|"
    r"diet|nationality|blood type|height|weight|pronouns|nickname|hobby|hobbies|favou?rite [\w ]{2,30}?|"
    r"preferred [\w ]{2,30}?)"
)
_PASSING = (
    r"(?!(?:broken|dead|lost|stolen|not|missing|late|here|asking|sick|wrong|expired|blocked|too|wrongly|invalid|ill|"
    r"coming|waiting|going|gone)\b)"
)
_ENGLISH = [
    (rf"{_I} (?:allergic|intolerant) to (?P<about>.+)", "allergy"),
    (rf"{_I}(?: have)?(?: an?)?(?: \w+)? (?P<about>\w+) (?:allergy|intolerance)$", "allergy"),
    (
        rf"{_I} (?:an? )?(?:vegetarian|vegan|pescatarian|(?:lactose|gluten)[- ]intolerant|coeliac|celiac|diabetic)",
        "diet",
    ),
    (rf"{_I} eat (?:only )?(?:halal|kosher|vegetarian|vegan)", "diet"),
    (rf"{_I} prefer to (?P<about>pay|travel|fly|stay|sit|work|eat|sleep|walk|drive|cycle)\b", "prefers"),
    (rf"{_I} prefer (?!to\b|not\b|ones?\b){_NOT_HERE}(?P<about>\S+(?: \S+){{0,5}})$", "prefers"),
    (
        rf"{_I} (?:like|love|enjoy|hate|dislike|detest|adore|stand|a (?:big |huge )?fan of) {_NOT_HERE}(?P<about>.+)",
        "likes",
    ),
    (
        r"i (?:don't|do not|never|only|can't|cannot|no longer|always) (?:eat|drink|smoke)(?: (?P<about>.+))?",
        "consumes",
    ),
    (
        rf"{_I} (?:live|living|moved|relocated|based|reside)(?: back)? (?:in|to|near|at) "
        r"(?!an? (?:hotel|hostel|motel)\b)(?-i:an? |[A-Z])",
        "home",
    ),
    (r"i(?:'m| am) (?:originally )?from (?-i:[A-Z])", "origin"),
    (r"(?:my (?:full |first |last )?name(?:'s| is)|i(?:'m| am) called|i go by) (?-i:[A-Z])", "name"),
    (r"(?:you can |please )?call me (?-i:[A-Z])[\w-]+$", "name"),
    (rf"i(?:'m| am) an? (?:[\w-]+ )?(?:[\w-]+ )?{_NOUNS}\b(?!'s\b)", "work"),
    (rf"{_I} work (?:as|for|at|in|from) {_NOT_HERE}\w", "work"),
    (r"i(?:'m| am) (?:retired|self-employed|unemployed)\b", "work"),
    (rf"my (?P<about>{_OWN})(?:'s name(?:'s| is)|(?:'s| is) (?:called|named)) {_PASSING}\S", "name of"),
    (rf"my (?P<about>{_OWN})(?:'s| is| are) {_PASSING}\S", "my"),
    (
        rf"{_I}(?: have)? (?:an? |one |two |three |four |\d+ |no )?(?:[\w-]+ ){{0,2}}(?P<about>kids?|child(?:ren)?|"
        r"sons?|daughters?|dogs?|cats?|pets?|twins|brothers?|sisters?|siblings?|diabetes|asthma|epilepsy|arthritis|"
        r"migraines?|insomnia|high blood pressure|driving licen[cs]e)\b",
        "has",
    ),
    (r"i(?:'m| am) (?:now )?\d{1,3}(?: years old)?$|i (?:just )?turned \d{1,3}$|i was born (?:in|on) ", "age"),
    (
        r"i (?:always|never|usually|rarely|only|don't|do not) (?P<about>fly|travel|stay|sit|take|use|wear|sleep|work|"
        rf"wake|get up|go to bed|pay|drive|shop|cook|read|run|swim|cycle) {_NOT_HERE}\w",
        "habit",
    ),
    (rf"{_I} speak (?-i:[A-Z])", "languages"),
    (rf"{_I} (?:married|single|divorced|engaged|widowed)$", "marital status"),
    (
        rf"{_I} (?P<about>pregnant|left-handed|colou?r-?blind|deaf|blind|hard of hearing|a morning person|a night owl|"
        r"(?:afraid|scared) of .+)$",
        "self",
    ),
    (r"i (?:use|wear) (?P<about>a wheelchair|glasses|contact lenses|hearing aids?|a hearing aid|size .+)", "uses"),
    (rf"{_I} (?:learning|studying) (?-i:(?P<about>[A-Z].+))", "learns"),
]

_WO = (
    r"我(?:自己|本人)?(?:也|都|现在|其实|一直|一般|平时|通常|从小|真的|特别|非常|很|最|比较|超级?|有点|已经|还是|还|"
    r"总是|向来|只|不太|不再|不|从不|从来不|从来|没有|没|绝对|严重|最近|上个月|去年|今年|刚)*"
)
_NOT_THERE = r"(?!这|那|你|您|它|他|她|上面|下面|刚才|第|了)"
_NO_STAY = (
    r"(?!在?(?:院|过|不|了|这|那|\w{0,8}?(?:酒店|宾馆|旅馆|民宿|招待所)(?!附近|旁|对面|后面)"
    r"|\w{1,12}?[\d一二两三四五六七八九十几](?:天|晚|夜)))"
)
_PROFESSIONS = (
    r"(?:老师|教师|学生|研究生|医生|护士|程序员|工程师|律师|设计师|会计|司机|厨师|记者|作家|公务员|自由职业者|销售|"
    r"经理|科学家|翻译|药剂师|农民)"
)
_MINE = (
    r"(?:生日|爱好|职业|专业|母语|家乡|老家|血型|身高|体重|鞋码|尺码|妻子|老婆|丈夫|老公|"
    r"女儿|儿子|孩子|妈妈|爸爸|狗|猫|公司|国籍|时区|口味)"
)
_CHINESE = [
    (rf"{_WO}对(?P<about>.{{1,20}}?)(?:严重)?(?:过敏(?!感)|不耐受)", "allergy"),
    (rf"{_WO}(?:有)?(?P<about>[^\s过]{{1,8}}?)(?:过敏(?!感)|不耐受)(?!了)", "allergy"),
    (rf"{_WO}最喜欢的(?P<about>.{{1,12}}?)(?:是|叫)", "favourite"),
    (rf"{_WO}(?:更喜欢|偏好|偏爱|宁愿|宁可|更愿意){_NOT_THERE}(?P<about>.+)", "prefers"),
    (rf"{_WO}(?:喜欢|爱吃|爱喝|爱看|爱听|讨厌|反感|受不了|热爱|钟爱){_NOT_THERE}(?P<about>.+)", "likes"),
    (rf"{_WO}(?:吃素|是素食|吃清真)", "diet"),
    (
        r"我(?:也|都|现在)*(?:不|不能|不再|从不|从来不|只|忌)(?:吃|喝|抽|碰)(?!这|那|了|饱|完|下|起)(?P<about>.+)",
        "consumes",
    ),
    (r"我(?:也|都|现在)*(?:吃不了|喝不了)(?P<about>.+)", "consumes"),
    (r"我(?:的名字(?:叫|是)|姓)\w|我(?:的?英文名)?叫(?!了|车|外卖|不|你|他|她|人|醒)\w{1,8}$", "name"),
    (rf"{_WO}(?:住{_NO_STAY}在?|搬到|定居在?|家住|家在)\w", "home"),
    (r"我(?:是|来自)(?!.{0,3}(?:收件|负责|联系|本|新|个|客|中间|当事|好)人)\w{2,6}人$|我来自\w", "origin"),
    (rf"{_WO}是(?:一名|一个|一位|名|个)?\w{{0,6}}?{_PROFESSIONS}$", "work"),
    (r"我(?:在|就职于).{1,20}(?:工作|上班|上学|读书|念书|实习)$|我(?:已经)?退休了?$", "work"),
    (rf"我的?(?P<about>{_MINE})(?:都|也)?(?:的名字(?:是|叫)|叫)(?!不|个|谁|什么|哪|坏|否)", "name of"),
    (rf"我的?(?P<about>{_MINE})(?:都|也)?(?:是|在|今年|:)(?!不|谁|什么|哪|坏|否)", "my"),
    (
        rf"{_WO}(?:养了|有)(?:一|两|二|三|四|几|\d+)?(?:个|只|条|位)?\w{{0,4}}?(?P<about>孩子|儿子|女儿|猫|狗|宝宝|姐姐|"
        r"哥哥|弟弟|妹妹|兔子|糖尿病|高血压|哮喘|心脏病|痛风|胃病|恐高症|失眠|驾照)",
        "has",
    ),
    (rf"{_WO}(?:是)?(?P<about>恐高|怕冷|怕热|怕辣|晕车|晕船|晕机|怀孕|近视|左撇子|色盲|夜猫子)", "self"),
    (
        rf"{_WO}(?:\d{{1,3}}|[一二三四五六七八九十]{{1,3}})岁(?:了|半)?$|我(?:是)?\d{{4}}年.{{0,8}}(?:出生|生)的?$",
        "age",
    ),
    (rf"{_WO}会(?:说|讲)\w{{1,10}}(?:语|话|文)", "languages"),
    (rf"{_WO}(?:已婚|未婚|单身|离婚了|结婚了)$", "marital status"),
    (
        r"我(?:总是|一般|通常|平时|从不|从来不|只|习惯)(?:都)?(?P<about>坐|住|用|穿|开车|骑车|睡|起床|跑步|付)(?!了|这|那)\S",
        "habit",
    ),
    (r"我(?:正|现在)?在学(?:习)?(?P<about>\w{1,10})$", "learns"),
]
_RULES = [
    *((re.compile(pattern, re.IGNORECASE), subject) for pattern, subject in _ENGLISH),
    *((re.compile(pattern), subject) for pattern, subject in _CHINESE),
]
