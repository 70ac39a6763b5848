"""The language of a text that declares none: by script, letters and stop words."""

from __future__ import annotations

import pytest

from aidre.engine.index.text.detection import question_language
from aidre.engine.index.text.languages import UNKNOWN
from aidre.engine.index.text.postings import LexicalText, Lexicon, build_lexicon


def _detected(*texts: str) -> list[str]:
    lexicon = Lexicon(build_lexicon(map(LexicalText, texts)))
    return [lexicon.tags[n] for n in lexicon.languages.tolist()]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("يقرأ مدير النظام ملف الإعدادات قبل تشغيل الخادم", "ar"),
        ("مدیر سامانه پرونده پیکربندی را پیش از راه‌اندازی کارساز می‌خواند", "fa"),
        ("منتظم سرور شروع کرنے سے پہلے ترتیبات کی فائل پڑھتا ہے", "ur"),
        ("بەڕێوەبەری سیستەم پەڕگەی ڕێکخستنەکان دەخوێنێتەوە", UNKNOWN),
        ("מנהל המערכת קורא את קובץ ההגדרות לפני הפעלת השרת", "he"),
        ("דער אַדמיניסטראַטאָר לייענט די טעקע און ער װײס װאָס צו טאָן", "yi"),
        ("Ο διαχειριστής διαβάζει το αρχείο ρυθμίσεων", "el"),
        ("ผู้ดูแลระบบอ่านแฟ้มตั้งค่าก่อนเริ่มเซิร์ฟเวอร์", "th"),
        ("व्यवस्थापक सर्वर चालू करने से पहले सेटिंग की फ़ाइल पढ़ता है", "hi"),
        ("व्यवस्थापकले सर्भर सुरु गर्नु अघि सेटिङको फाइल पढ्छ र यो सबै मा छ", "ne"),
        ("प्रशासक सर्व्हर सुरू करण्यासाठी आणि सेटिंगची फाइल वाचतो असे आहे", "mr"),
        ("관리자는 서버를 시작하기 전에 설정 파일을 읽는다", "ko"),
        ("管理者はサーバーを起動する前に設定ファイルを読みます", "ja"),
        ("管理员在启动服务器之前阅读配置文件", "zh"),
        ("管理员在网上商店购买优良的产品「優の良品」并阅读配置文件说明", "zh"),
        ("Администратор читает файл настроек перед запуском сервера", "ru"),
        ("Адміністратор читає файл налаштувань перед запуском сервера і перевіряє його", "uk"),
        ("Администраторът чете файла с настройките, преди да стартира сървъра, и това ще се види", "bg"),
        ("Администратор чита датотеку са подешавањима пре него што је покренуо услугу", "sr"),
        ("Әкімші серверді іске қоспас бұрын баптау файлын оқиды", UNKNOWN),
        ("Ադմինիստրատորը կարդում է կարգավորումների ֆայլը", "hy"),
        ("நிர்வாகி அமைப்புக் கோப்பைப் படிக்கிறார்", "ta"),
        ("ადმინისტრატორი კითხულობს კონფიგურაციის ფაილს", "ka"),
    ],
)
def test_a_language_is_recognised_by_its_script_its_letters_and_small_words(text: str, language: str) -> None:
    assert _detected(text) == [language]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("L'administrador llegeix el fitxer de configuració abans d'engegar el servidor, però no sempre", "ca"),
        ("El administrador lee el fichero de configuración antes de arrancar el servidor, pero no siempre", "es"),
        ("Správce čte soubor s nastavením, protože server není bez něj možné spustit, ale také může být jiný", "cs"),
        ("Järjestelmän ylläpitäjä lukee asetukset ennen kuin palvelin on käynnissä, mutta se ei ole pakko", "fi"),
        ("Administrator čita datoteku s postavkama prije nego što je poslužitelj pokrenut, ali ne uvijek", "hr"),
        ("A rendszergazda elolvassa a beállításokat, mert a kiszolgáló nem indul el, ha nincs ilyen", "hu"),
        ("Administrator membaca berkas konfigurasi sebelum server dijalankan, tetapi tidak untuk semua", "id"),
        ("Administrator czyta plik ustawień, ponieważ serwer nie może bez niego działać, ale tylko raz", "pl"),
        ("Administratorul citește fișierul înainte de a porni serverul, dar nu este întotdeauna nevoie", "ro"),
        ("Yönetici sunucu için ayar dosyasını okur, ama bu her zaman gerekli değil", "tr"),
        ("Người quản trị đọc tập tin cấu hình trước khi khởi động máy chủ và không cần gì khác", "vi"),
        ("Administratorius skaito nustatymų failą, nes be jo serveris negali veikti, bet tai ne visada", "lt"),
        ("Haldur loeb seadete faili enne kui server on käivitatud, aga see ei ole alati nii", "et"),
    ],
)
def test_languages_in_latin_letters_are_recognised_by_small_words(text: str, language: str) -> None:
    assert _detected(text) == [language]


COMMANDS = "\n".join(f"apt-get install --reinstall package-{n} && dpkg -i /var/cache/{n}.deb" for n in range(30))
ARABIC = "نفّذ الأوامر التالية على كل خادم في الشبكة"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (f"{ARABIC}:\n{COMMANDS}", "ar"),
        (f"{ARABIC}: for package in $list; do apt-get install $package; done", "ar"),
        ("The Arabic word حزمة means package, and it is what the handbook of Debian says for it.", "en"),
        ("5.2. المعلومات الفوقية للحزمة\nThe package is not only an archive of files: it is a part of a larger whole, "
         "and it has scripts that are run when it is installed, upgraded or removed from the system.", "en"),
        ("Das arabische Wort حزمة bedeutet Paket, und so steht es auch in dem Handbuch.", "de"),
        ("a laser of 5 μm, with an angle α", "en"),
        (COMMANDS, "en"),
        ("for i, k in enumerate(v): a = z.s(u, o, w)", "en"),
        ("猫", "en"),
        ("", "en"),
    ],
)  # fmt: skip
def test_commands_quotations_and_untranslated_text_do_not_mislead(text: str, language: str) -> None:
    assert _detected(text) == [language]


def test_each_row_has_its_own_language() -> None:
    texts = ["يقرأ مدير النظام ملف الإعدادات", "the file of the system", "", "設定ファイルを読みます", "он читает файл"]
    assert _detected(*texts) == ["ar", "en", "en", "ja", "ru"]


EVERY = ("en", "de", "es", "ro", "tr", "vi", "ar", "ru", "zh", "hi", "th", "el", UNKNOWN)


@pytest.mark.parametrize(
    ("text", "stored", "language"),
    [
        ("Wie wird ein Loch im Reifen geflickt?", EVERY, "de"),
        ("How is a flat tyre mended?", EVERY, "en"),
        ("¿Cuál es la capital de la provincia?", EVERY, "es"),
        ("Care este capitala țării?", EVERY, "ro"),
        ("Thủ đô của nước này là gì?", EVERY, "vi"),
        ("ما هي عاصمة البلاد؟", EVERY, "ar"),
        ("Какой город является столицей?", EVERY, "ru"),
        ("首都是哪里", EVERY, "zh"),
        ("राजधानी कहाँ है", EVERY, "hi"),
        ("เมืองหลวงคืออะไร", EVERY, "th"),
        ("كيف أثبت Docker Compose على Ubuntu", EVERY, "ar"),
        ("What does the word سلام mean in this text?", EVERY, "en"),
        ("docker compose", EVERY, None),
        ("docker compose", ("de", "ar"), "de"),
        ("docker compose", (), None),
        ("die Katze und der Hund", ("en",), "de"),
        ("die hard", ("en",), "en"),
        ("Столиця України", ("en", "ru"), "ru"),
        ("Столиця України", ("en",), "uk"),
        ("東京の天気はどうですか", ("zh", "ja"), "ja"),
        ("東京の天気はどうですか", ("en",), "ja"),
    ],
)
def test_a_question_is_of_a_language_of_the_collection_or_of_one_that_it_shows(
    text: str, stored: tuple[str, ...], language: str | None
) -> None:
    assert question_language(text, stored) == language
