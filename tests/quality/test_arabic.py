"""Arabic documents that declare no language: a word is found in all of its forms, over the wire."""

from __future__ import annotations

from pathlib import Path

from tests.support.clients import a_document, fill, serving

WITH_PACKAGE = [
    "يمكن تثبيت الحزمة من المستودع مباشرة",
    "والحزمة التي تعتمد عليها تُثبَّت أولاً",
    "يبدأ النظام بالحزمة الأساسية ثم يكمل",
    "لا بد للحزمة من ملف وصف يشرح محتواها",
    "أزل حزمة قديمة قبل ترقية النظام",
    "تحتوي حزمتان على الملف نفسه أحياناً",
    "تُنشر الحزم الجديدة كل أسبوع في المستودع",
    "وللحزم أسماء قصيرة يسهل تذكرها",
    "راجع توقيع كل حِزْمَة قبل تثبيتها: apt-get install",
    "يختار المدير بحزمة واحدة كل ما يلزم الخادم",
]
OTHERS = [
    "يحتاج الخادم إلى ذاكرة كافية لخدمة الطلبات",
    "اضبط عنوان الشبكة في ملف الإعداد",
    "The server keeps its packages in a repository",
    "تُحفظ كلمات المرور مشفرة على القرص",
    "يراقب المدير سجلات النظام كل صباح",
] * 4


def test_a_question_that_ten_documents_answer_finds_the_ten(tmp_path: Path) -> None:
    documents = [a_document(f"package-{n}", text) for n, text in enumerate(WITH_PACKAGE)]
    documents += [a_document(f"other-{n}", text) for n, text in enumerate(OTHERS)]
    fill(tmp_path, "handbook", documents, spaces=())
    with serving(tmp_path) as client:
        for query in ("حزمة", "الحزمة", "والحزم"):
            results = client.search({"query": query, "top_k": 20}).json()["results"]
            assert {result["id"] for result in results} == {f"package-{n}#chunk_1" for n in range(10)}, query
