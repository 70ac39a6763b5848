"""The languages of the text index: tag, English name, Snowball stemmer and stop words.

Stop words are function words: articles, pronouns, prepositions, conjunctions, auxiliaries. They also serve to detect
the language of a text. They are in lower case, and split at apostrophes as tokens are ("don't" is `don` and `t`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from aidre.engine.model import Json


@dataclass(frozen=True)
class Language:
    """`stemmer` is the name of a Snowball algorithm, `words` the stop words; a language without them is never detected,
    only declared."""

    tag: str
    name: str
    stemmer: str
    words: str = ""

    @cached_property
    def stop_words(self) -> frozenset[str]:
        return frozenset(self.words.split())


_ENGLISH: Final = """
a about above after again against all also am an and any are aren as at be because been before being below between
both but by can cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn
has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m me
might more most must mustn my myself needn no nor not now o of off on once only or other ought our ours ourselves out
over own re s same shall shan she should shouldn so some such t than that the their theirs them themselves then there
these they this those through to too under until up upon ve very was wasn we were weren what when where which while
who whom whose why will with within without won would wouldn you your yours yourself yourselves
"""
_GERMAN: Final = """
aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei beim
bin bis bist da damit dann das dass daß dein deine deinem deinen deiner dem den denn der deren des dessen dich die
dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer
eure für gegen gewesen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im
in indem ins ist jede jedem jeden jeder jedes jene jenem jenen jener jenes jetzt kann kein keine keinem keinen keiner
können könnte machen man manche mein meine meinem meinen meiner mich mir mit muss musste nach nicht nichts noch nun
nur ob oder ohne sehr sein seine seinem seinen seiner selbst sich sie sind so solche solchem solchen solcher soll
sollte sondern sonst über um und uns unser unsere unserem unseren unter viel vom von vor wann war waren warst was weg
weil weiter welche welchem welchen welcher welches wenn wer werde werden wie wieder will wir wird wirst wo wollen
wollte während würde würden zu zum zur zwar zwischen
"""
_FRENCH: Final = """
ai aient ainsi alors après as au aucun aussi autre aux avaient avait avant avec avez avoir avons c ce ceci cela celle
celles celui ces cet cette ceux chaque chez comme comment d dans de depuis des dont du elle elles en encore entre es
est et étaient était étant été être eu eux fait faire il ils j je l la le les leur leurs lors lui m ma mais me même
mêmes mes moi moins mon n ne ni nos notre nous on ont ou où par parce pas pendant peu peut plus pour pourquoi qu quand
que quel quelle quelles quels qui s sa sans se sera ses si sont son sont sous sur t ta te tes toi ton tous tout toute
toutes très tu un une vers vos votre vous y à
"""
_SPANISH: Final = """
a al algo algunas algunos ante antes aquel aquella aquello así aunque cada como con contra cual cuales cuando de del
desde donde dos durante e el él ella ellas ellos en entre era eran eres es esa esas ese eso esos esta está están
estaba estas este esto estos fue fueron ha había han has hasta hay he la las le les lo los más me mi mientras mis
mucho muchos muy nada ni no nos nosotros nuestra nuestro o os otra otras otro otros para pero poco por porque qué que
quien quienes se sea ser si sí sido sin sino sobre solo son soy su sus también tan tanto te tiene tienen todo todos tu
tus un una unas uno unos usted y ya yo
"""
_ITALIAN: Final = """
a abbia abbiamo ad agli ai al alla alle allo anche ancora avere aveva avevano c che chi ci cioè coi col come con
contro cosa cui da dagli dai dal dalla dalle dallo degli dei del dell della delle dello dentro di dopo dove e ed era
erano essere fra gli ha hai hanno ho i il in io l la le lei li lo loro lui ma me mentre mi mia mie miei mio molto ne
negli nei nel nell nella nelle nello noi non nostra nostro o ogni oltre per perché più poi presso prima qual quale
quando quanto quella quelle quelli quello questa queste questi questo qui se sei senza si sia siamo sono sopra sta
stata stati stato su sua sue sugli sui sul sulla sulle sullo suo suoi tra tu tua tuo tutti tutto un una uno vi voi è
"""
_PORTUGUESE: Final = """
a à ao aos aquela aquelas aquele aqueles aquilo as às até com como da das de dela delas dele deles depois do dos e é
ela elas ele eles em entre era eram essa essas esse esses esta está estão estas estava este estes eu foi for foram há
isso isto já lhe lhes mais mas me mesmo meu meus minha muito na nas não nem no nos nós nossa nosso num numa o os ou
para pela pelas pelo pelos por porque qual quando que quem são se seja sem ser será seu seus só sobre sua suas também
te tem têm tinha toda todas todo todos tu um uma umas uns você vocês
"""
_DUTCH: Final = """
aan af al alle alles als altijd andere ben bij daar dan dat de deze die dit doch doen door dus een eens en er ge geen
geweest haar had hadden heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je jou jouw kan kon kunnen
maar me meer men met mij mijn moet moeten na naar niet niets nog nu of om omdat ons onze ook op over reeds te tegen
toch toen tot tussen u uit uw van veel voor want waren was wat we welke wel werd werden wie wij wil worden wordt zal
ze zelf zich zij zijn zo zoals zonder zou zouden
"""
_SWEDISH: Final = """
alla allt att av blev bli blir blivit de dem den denna deras dess dessa det detta dig din dina ditt du där då efter ej
eller en ett från för genom ha hade han hans har hennes hon honom hos hur i icke ingen inom inte jag ju kan kunde man
med mellan men mig min mina mitt mot mycket ni nu när någon något några och om oss på samma sedan sig sin sina sitt
ska skall skulle som så sådan till um under upp ut utan vad var vara varför varit varje vars vem vi vid vilka vilken
vilket vår våra vårt än är åt över
"""
_DANISH: Final = """
af alle alt anden andet andre at blev blive bliver da de dem den denne der deres det dette dig din dine disse dog du
efter eller en end er et for fra før ham han hans har havde have hende hendes her hos hun hvad hvem hver hvilken hvis
hvor hvordan hvorfor i ikke ind ingen jeg jer jo kan kunne lige man mange med meget mellem men mig min mine mit mod
ned nogen noget nogle nu når og også om op os over på samme sig sin sine sit skal skulle som sådan thi til ud uden
under var ved vi vil ville vor være været
"""
_NORWEGIAN: Final = """
alle andre at av bare begge ble bli blir blitt både da de deg dei deim den denne der dere deres det dette di din disse
ditt du eit eller en enn er et etter for fordi fra før ha hadde han hans har henne hennes her hun hva hvem hver
hvilken hvis hvor hvordan hvorfor i ikke ikkje ingen inn ja jeg kan kom kun kunne man mange med meg meget mellom men
mer mest min mitt mot mye må ned noe noen nå når og også om opp oss over på samme seg selv si siden sin sine sitt skal
skulle slik som så til ut uten var ved vi vil ville vår være vært
"""
_RUSSIAN: Final = """
а без более больше будет будто бы был была были было быть в вам вас весь во вот все всего всех вы где да даже для до
его ее её если есть еще ещё же за здесь и из или им их к как какая какой когда который которая которые кто ли либо
между меня мне много может можно мой мы на над надо наш не него нее неё нет ни них но ну о об однако он она они оно от
очень по под после потом потому почти при про раз с сам себе себя со так также такой там те тем то того тоже той
только том тот ты у уже хотя чего чей чем что чтобы чуть эта эти это этого этой этом этот я
"""

LANGUAGES: Final[Mapping[str, Language]] = {
    language.tag: language
    for language in (
        Language("en", "english", "english", _ENGLISH),
        Language("de", "german", "german", _GERMAN),
        Language("fr", "french", "french", _FRENCH),
        Language("es", "spanish", "spanish", _SPANISH),
        Language("it", "italian", "italian", _ITALIAN),
        Language("pt", "portuguese", "portuguese", _PORTUGUESE),
        Language("nl", "dutch", "dutch", _DUTCH),
        Language("sv", "swedish", "swedish", _SWEDISH),
        Language("da", "danish", "danish", _DANISH),
        Language("no", "norwegian", "norwegian", _NORWEGIAN),
        Language("ru", "russian", "russian", _RUSSIAN),
        *(
            Language(tag, name, name)
            for tag, name in (
                ("ar", "arabic"), ("hy", "armenian"), ("eu", "basque"), ("ca", "catalan"), ("cs", "czech"),
                ("eo", "esperanto"), ("et", "estonian"), ("fi", "finnish"), ("el", "greek"), ("hi", "hindi"),
                ("hu", "hungarian"), ("id", "indonesian"), ("ga", "irish"), ("lt", "lithuanian"), ("ne", "nepali"),
                ("fa", "persian"), ("pl", "polish"), ("ro", "romanian"), ("sr", "serbian"), ("ta", "tamil"),
                ("tr", "turkish"), ("yi", "yiddish"),
            )
        ),
    )
}  # fmt: skip
"""By tag. Text in any other language is neither stemmed nor stripped of stop words."""

_ALIASES: Final = {"nb": "no", "nn": "no", **{language.name: tag for tag, language in LANGUAGES.items()}}

UNKNOWN: Final = "und"
"""The tag of every language that is not in the table; its words are terms unchanged."""


def language_tag(declared: Json) -> str | None:
    """The short tag of a BCP 47 tag ("de-AT") or of an English name ("German"); None for any other value.

    The declaration may be a schema.org Language object, or a list, of which the first element counts.
    """
    if isinstance(declared, list) and declared:
        declared = declared[0]
    if isinstance(declared, dict):
        declared = declared.get("alternateName") or declared.get("name")
    if not isinstance(declared, str):
        return None
    first = declared.strip().lower().replace("_", "-").split("-", 1)[0]
    tag = _ALIASES.get(first, first)
    if tag in LANGUAGES:
        return tag
    return UNKNOWN if 2 <= len(tag) <= 3 and tag.isascii() and tag.isalpha() else None


def declared_language(metadata: Mapping[str, Json] | None, schema_object: Mapping[str, Json] | None) -> str | None:
    """The first valid tag among the metadata `language` and `lang` and schema.org's `inLanguage`."""
    metadata, schema_object = metadata or {}, schema_object or {}
    declared = (metadata.get("language"), metadata.get("lang"), schema_object.get("inLanguage"))
    return next((tag for tag in map(language_tag, declared) if tag is not None), None)
