"""Words of many scripts, some of which differ by combining marks alone, and texts made of them."""

from __future__ import annotations

from itertools import combinations

SPACED = {
    "Hindi": "पानी पीना पाना दिन दान दीन घर घेरा",
    "Bengali": "দিন দান পানি পান মন মান ঘর ঘোর",
    "Tamil": "படி பாடி பாடு கல் கால் மலை மாலை நாள்",
    "Telugu": "పాట పేట కల కాలం మాట మీట నది నాది",
    "Sinhala": "මල මාල ගම ගාම දින දාන පාන පිනි",
    "pointed Hebrew": "סֵפֶר סַפָּר סִפֵּר דָּבָר דֶּבֶר מֶלֶךְ מָלַךְ אֵם",
    "vocalised Arabic": "كَتَبَ كُتُب كُتِبَ عِلْم عَلَم بَيْت بِنْت نَهْر",
    "Vietnamese": "ma má mà mả mã mạ bò bố",
    "Korean": "영화 음악 오늘 선생님 학생 도시 강물 바람",
}
UNSPACED = {
    "Thai": "ดี ดู มี มู นี้ นำ ปี ปู",
    "Khmer": "ទា ទី ទឹក តា តី មាន មីន នាំ",
    "Burmese": "လာ လူ လီ စာ စီ ရေ ရာ မာ",
    "Chinese": "电影 音乐 喜欢 今天 老师 学生 城市 河流",
    "Japanese": "映画 おんがく カメラ 今日 先生 学生 町 川",
}
SCRIPTS = SPACED | UNSPACED


def words_of(script: str) -> list[list[str]]:
    """Return 70 different texts of a script, as their four words."""
    return [list(one) for one in combinations(SCRIPTS[script].split(), 4)]


def text_of(script: str, words: list[str]) -> str:
    """Return a text as it is written in a script: with spaces between words, or without."""
    return ("" if script in UNSPACED else " ").join(words)
