"""Stop words: the function words of each language, that is articles, pronouns, prepositions, conjunctions, auxiliaries.

They are no terms, and they serve to detect the language of a text. They are in lower case, and split at apostrophes as
tokens are ("don't" is `don` and `t`). The lists from Catalan on have no single ASCII letters, which are variables in
code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STOP_WORDS: Final[Mapping[str, str]] = {
    "en": """
a about above after again against all also am an and any are aren as at be because been before being below between
both but by can cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn
has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m me
might more most must mustn my myself needn no nor not now o of off on once only or other ought our ours ourselves out
over own re s same shall shan she should shouldn so some such t than that the their theirs them themselves then there
these they this those through to too under until up upon ve very was wasn we were weren what when where which while
who whom whose why will with within without won would wouldn you your yours yourself yourselves
""",
    "de": """
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
""",
    "fr": """
ai aient ainsi alors après as au aucun aussi autre aux avaient avait avant avec avez avoir avons c ce ceci cela celle
celles celui ces cet cette ceux chaque chez comme comment d dans de depuis des dont du elle elles en encore entre es
est et étaient était étant été être eu eux fait faire il ils j je l la le les leur leurs lors lui m ma mais me même
mêmes mes moi moins mon n ne ni nos notre nous on ont ou où par parce pas pendant peu peut plus pour pourquoi qu quand
que quel quelle quelles quels qui s sa sans se sera ses si sont son sont sous sur t ta te tes toi ton tous tout toute
toutes très tu un une vers vos votre vous y à
""",
    "es": """
a al algo algunas algunos ante antes aquel aquella aquello así aunque cada como con contra cual cuales cuando de del
desde donde dos durante e el él ella ellas ellos en entre era eran eres es esa esas ese eso esos esta está están
estaba estas este esto estos fue fueron ha había han has hasta hay he la las le les lo los más me mi mientras mis
mucho muchos muy nada ni no nos nosotros nuestra nuestro o os otra otras otro otros para pero poco por porque qué que
quien quienes se sea ser si sí sido sin sino sobre solo son soy su sus también tan tanto te tiene tienen todo todos tu
tus un una unas uno unos usted y ya yo
""",
    "it": """
a abbia abbiamo ad agli ai al alla alle allo anche ancora avere aveva avevano c che chi ci cioè coi col come con
contro cosa cui da dagli dai dal dalla dalle dallo degli dei del dell della delle dello dentro di dopo dove e ed era
erano essere fra gli ha hai hanno ho i il in io l la le lei li lo loro lui ma me mentre mi mia mie miei mio molto ne
negli nei nel nell nella nelle nello noi non nostra nostro o ogni oltre per perché più poi presso prima qual quale
quando quanto quella quelle quelli quello questa queste questi questo qui se sei senza si sia siamo sono sopra sta
stata stati stato su sua sue sugli sui sul sulla sulle sullo suo suoi tra tu tua tuo tutti tutto un una uno vi voi è
""",
    "pt": """
a à ao aos aquela aquelas aquele aqueles aquilo as às até com como da das de dela delas dele deles depois do dos e é
ela elas ele eles em entre era eram essa essas esse esses esta está estão estas estava este estes eu foi for foram há
isso isto já lhe lhes mais mas me mesmo meu meus minha muito na nas não nem no nos nós nossa nosso num numa o os ou
para pela pelas pelo pelos por porque qual quando que quem são se seja sem ser será seu seus só sobre sua suas também
te tem têm tinha toda todas todo todos tu um uma umas uns você vocês
""",
    "nl": """
aan af al alle alles als altijd andere ben bij daar dan dat de deze die dit doch doen door dus een eens en er ge geen
geweest haar had hadden heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je jou jouw kan kon kunnen
maar me meer men met mij mijn moet moeten na naar niet niets nog nu of om omdat ons onze ook op over reeds te tegen
toch toen tot tussen u uit uw van veel voor want waren was wat we welke wel werd werden wie wij wil worden wordt zal
ze zelf zich zij zijn zo zoals zonder zou zouden
""",
    "sv": """
alla allt att av blev bli blir blivit de dem den denna deras dess dessa det detta dig din dina ditt du där då efter ej
eller en ett från för genom ha hade han hans har hennes hon honom hos hur i icke ingen inom inte jag ju kan kunde man
med mellan men mig min mina mitt mot mycket ni nu när någon något några och om oss på samma sedan sig sin sina sitt
ska skall skulle som så sådan till um under upp ut utan vad var vara varför varit varje vars vem vi vid vilka vilken
vilket vår våra vårt än är åt över
""",
    "da": """
af alle alt anden andet andre at blev blive bliver da de dem den denne der deres det dette dig din dine disse dog du
efter eller en end er et for fra før ham han hans har havde have hende hendes her hos hun hvad hvem hver hvilken hvis
hvor hvordan hvorfor i ikke ind ingen jeg jer jo kan kunne lige man mange med meget mellem men mig min mine mit mod
ned nogen noget nogle nu når og også om op os over på samme sig sin sine sit skal skulle som sådan thi til ud uden
under var ved vi vil ville vor være været
""",
    "no": """
alle andre at av bare begge ble bli blir blitt både da de deg dei deim den denne der dere deres det dette di din disse
ditt du eit eller en enn er et etter for fordi fra før ha hadde han hans har henne hennes her hun hva hvem hver
hvilken hvis hvor hvordan hvorfor i ikke ikkje ingen inn ja jeg kan kom kun kunne man mange med meg meget mellom men
mer mest min mitt mot mye må ned noe noen nå når og også om opp oss over på samme seg selv si siden sin sine sitt skal
skulle slik som så til ut uten var ved vi vil ville vår være vært
""",
    "ca": """
al de del en es un això aquest aquesta aquestes aquests aquell aquella altra altre altres amb així cada com contra
dels del des dins doncs durant el els ella elles ells en encara entre era eren es és està estan et fer fins ha han
haver hi ho la les li llavors lo los més mentre meu mica molt molta molts ni no nosaltres nostra nostre on pel pels
per però perquè poc pot què quan que qual quals quin quina sense ser seu seus seva seves si sobre sota són també tan
tant tot tota totes tots una unes uns us va van vegada vostè vostra ja aquí només
""",
    "hr": """
ali bez bi bih bila bile bili bilo biti bio bit će ću da do dok drugi ga gdje god ih ili im ima isto iz iza između ja
je jedan jer još kada kako kao kod koja koje koji kojih kojima koju kroz li može možete mogu mora na nad nakon nam
nego neka neke neki ne nije nisu njegov njih no od ona one oni ono ova ovaj ove ovo ovog ovu pa po pod pomoću preko
prema pri prije samo se sebe si su sve svi svih svoj ta tada taj tako također te tek ti to toga tom ukoliko umjesto uz
više vrlo zašto za zbog što
""",
    "cs": """
aby ale ani asi až bez bude budou by byl byla byli bylo být co což další dnes do jak jako je jeho jehož jej její
jejich jen jenž jestli ještě ji jiné již jsem jsme jsou jste kde kdo kdy když která které který kteří kterou ku má
mezi mít může můžete na nad nám nebo nejsou není než nic od pak po pod podle pokud pouze pro proč proto protože první
před přes při se si své svůj ta tak také tato te tedy ten tento této tím to toho tohoto tom tomto tuto ty tyto už vám
vás ve více však všechny za zda zde ze že
""",
    "et": """
aga ei et ega ehk enam enne ja jah järel ka kas kes keda kelle kogu kõik kui kuid kuni kus küll ma mida mille milles
millest minu mis mitte mu mõne nad need neid nende nii ning no nüüd oli olid olla ole oleks oma on pole pärast saab
sealt see seda selle selles sellest siin siis sest sa ta te teda tema tuli välja veel või võib väga üle üks
""",
    "fi": """
ei eivät ellei emme en enää ennen eri että he heidän hän hänen ilman itse ja jo joka jonka jos jossa joten jotka jota
kaikki kanssa kautta kun kuin kuinka kuten koska liian me mikä miksi minkä missä mitä mukaan mutta myös ne niiden niin
niitä no nyt näin näitä ole oli olisi olla on oma ovat saa se sekä sen siellä sille sillä sitä sitten siis tai tämä
tämän tässä tätä te tulee vaan vaikka vain voi voidaan voit vielä yli
""",
    "hu": """
abban addig ahogy ahol aki akik akkor alatt által általában amely amelyek amelyet ami amikor annak arra az azok azon
azonban azt aztán azzal belül csak de egy egyéb egyes egyik el ellen elő először ez ezek ezen ezért ezt ezzel fel
függetlenül ha hanem hiszen hogy hogyan igen ill illetve ilyen itt jó kell kellett keresztül ki kívül között közül le
legalább lehet lenne lesz lett ma már meg mellett mert mi mint mintha mivel még míg minden mindig most nagyon ne nekem
nem nincs olyan ott össze saját se sem sok számára szerint talán tehát több továbbá úgy után utolsó vagy vagyis való
valaki valami van vannak volna volt voltak vissza
""",
    "id": """
ada adalah agar akan antara apa apabila atas atau bagi bahwa banyak beberapa belum berbagai bila bisa bukan cara dalam
dan dapat dari daripada dengan di dia guna hanya harus hingga ia ini itu jadi jika juga kami karena ke kecuali
kemudian kepada ketika kita lagi lain lainnya lalu lebih maka masih melalui mereka merupakan misalnya namun oleh pada
padahal para pernah saat saja salah sama sambil sampai sangat saya sebagai sebelum sebuah secara sedang sehingga
selain seluruh semua sendiri seperti sering serta sesuai setelah setiap siapa suatu sudah supaya tanpa telah tentang
terhadap tersebut tetapi tidak untuk yaitu yang
""",
    "lt": """
aš apie ar arba bei bet būti buvo bus daugiau dar dėl gali iki ir iš yra jau jei ji jie jis jo jos jų kad kai kaip kas
kiek kiti kol kur kuri kurie kuris kurios kurių man mes mūsų ne nes net nėra nors nuo pagal pas per po prie prieš savo
su tačiau taip taigi tai tarp tas tik to todėl tuo tų turi už visi vienas visų šio šis šią
""",
    "pl": """
aby albo ale ani aż bardzo bez będą będzie bo by być był była było były ci co czy dla dlaczego do dopiero gdy gdzie
gdyż go ich ile im inne ja jak jako je jeden jednak jednym jego jej jest jeszcze jeśli jeżeli już każdy kiedy kilka
kto która które którego której który których którzy lub ma mają między mi może można mu musi na nad nam nas natomiast
nie niż nich nim no oraz od ona one oni po pod ponieważ poprzez przed przez przy raz również są się sobie swoje ta tak
takie także tam te tego tej ten też to tu tych tylko tym tymi ty więc wszystkie wszystko we za zawsze ze został że
żeby
""",
    "ro": """
acea aceasta această aceea acest acesta aceste acestea acestei acestor acestui aceștia acolo acum ai aici al ale alt
alte altfel am anumite ar are asemenea astfel asupra atât atunci au avea avem ați bine ca când care către ce cea cei
cel cele ceva chiar ci cine cu cum da dacă dar de deci decât deja deși despre din dintre doar după ea ei el ele era
este eu face fără fi fie fiecare fiind foarte fost iar îi îl în înainte încă între însă la le lor lui mai mult nici nu
oricare pe pentru peste poate pot prin puteți sa să sale sau se si și sub sunt te toate tot toți trebuie un una unde
unei unele unor unui va vă voi vom vor
""",
    "tr": """
acaba ama ancak arasında artık aslında ayrıca az bana bazı bazen ben beri bile bir biraz birçok biz bize bu buna bunu
bunlar bunun böyle da daha de değil diğer diye dolayı edilen eğer en gibi göre hangi hem henüz hep her hiç hiçbir için
içinde ile ilgili ise işte kadar karşı kendi ki kim kimse mi mu mü mı nasıl ne neden nerede olan olarak oldu olduğu
olmak olması olur olsa ona ondan onlar onu onun önce rağmen sadece sanki sen siz sonra şey şu tarafından tüm üzere
üzerinde var veya ve ya yani yalnızca yer yine yoksa zaten
""",
    "vi": """
bạn bị bởi các cách cái cần chỉ cho có còn của cũng cùng đã đang để đến đều điều được đó đây gì giữa hay hoặc khác khi
không là lại lên làm mà mỗi một này nên nếu như những nhiều nó phải qua ra rất rằng sau sẽ sự tất tại theo thể thì
trên trong trước từ tới vào vẫn và về vì với việc
""",
    "ru": """
а без более больше будет будто бы был была были было быть в вам вас весь во вот все всего всех вы где да даже для до
его ее её если есть еще ещё же за здесь и из или им их к как какая какой когда который которая которые кто ли либо
между меня мне много может можно мой мы на над надо наш не него нее неё нет ни них но ну о об однако он она они оно от
очень перед по под после потом потому почти при про раз с сам себе себя со так также такой там те тем то того тоже той
только том тот ты у уже хотя через чего чей чем что чтобы чуть эта эти это этого этой этом этот я
""",
    "bg": """
ако без беше бъде бяха в във вече все всички го да дали до докато друг други е една един едно за заедно защото и из
или им има как като към когато което който която които ли между може много можете му на над най нас не него нито но
няма обаче от още по под поради после преди през при са само се си след сме със така такива тази там те тези то това
този той тук ще я
""",
    "sr": """
али ако без би био била било бити да до док други га где и из или им има још је јер као како када код која које који
којих кроз може мора на над након не него неки није нису о од око ова овај ово ове они па по под после преко према при
са само се себе свe сви су све та тада тако такође те то тог тога том у уз више за због што ће
""",
    "uk": """
або але без би більше бо був буде бути була були було в вам вас все всі від він вона вони воно для до є же за з із й
інші його коли лише ми може можна на над нам не немає ні них об один он перед під після по при про ті та так також там
те тим то тому тут у хоча це цей ця цього цьому цих чи чим що щоб як яка який яке які якщо їх її
""",
    "ar": """
أحد أخرى أكثر ألا إذ إذا إلا إلى أم أما إما أن إن أنا أنت أنه أنها أنهم أو أول أي أيضا أيضاً آخر بأن بعد بعض بل بما
بها به بهذا بهذه بين تحت تلك تم ثم جدا جميع جميعا حتى حول حيث حين خلال دون ذات ذلك سوف عبر عدة عدد على عليها عليه عن
عند عندما عنه عنها غير فقد فقط فهو فهي في فيما فيه فيها قبل قد كان كانت كذلك كل كلا كما كنت كي كيف لأن لأنه لا لدى
لذلك لقد لك لكن لكنه لم لماذا لن له لها لهذا لهذه لهم لو ليس ليست ما ماذا متى مثل مع معظم من منذ منه منها مهما نحن نحو
نفس نفسه هذا هذه هل هم هنا هناك هو هي و وأن وإن وقد وكان وكانت ولا ولم ولن وليس وما ومن وهذا وهذه وهو وهي وفي يتم يجب
يكون يمكن تكون
""",
    "fa": """
آن آنها آنچه از است اگر اما ای این اینکه با باید بر برای بسیار بعد به بود بودن بوده بین تا تمام تنها توسط چند چه چون
خود خواهد داده دارد دارند در درباره دو دیگر را روی زیر سپس شد شده شود شما طور کرد کردن کرده کند کنند کنید که ما مانند
مثل می ممکن مورد میان نمی نیز نیست ها های هر هم همه همین هنوز هیچ و وجود ولی یا یک یکی
""",
    "hi": """
अगर अपना अपनी अपने आदि आप इन इस इसके इसमें इसे उन उनके उस उसके एक एवं ऐसे और कई कर करके करता करती करते करना करने का
काफी कि किया किसी की कुछ के को कोई क्या गई गए गया जब जा जाता जाती जाते जिस जैसे जो तक तथा तब तो था थी थे द्वारा न नहीं
ने पर फिर बहुत भी में यदि यह यहाँ या ये रहा रहे लिए लेकिन वह वे सकता सकते सभी से ही हुआ हुई हुए हूँ है हैं हो होता
होती होते
""",
    "mr": """
अनेक अशा असा असे असून असलेल्या आणि आता आपल्या आहे आहेत इतर एक एका कमी करण्यात करण्यासाठी करून काही किंवा की केला केली
केले गेल्या च चा ची चे च्या जर जा जे झाला झाली झाले तर ती ते तो त्या त्याच्या त्यांना दिली नाही नाहीत परंतु पण पर म
मात्र मी मध्ये या याच्या यांनी येथे ला व हा ही हे होता होती होते
""",
    "ne": """
अनि अनुसार अन्य अब अर्को आफ्नो आदि उनको एउटा एक कसरी का कि कुनै के केही को गरी गरे गरेको गर्दछ गर्न गर्ने गर्नुहोस् छ
छन् छैन छौं जब जस्तो जसले जुन त तथा तपाईं तर थियो थिए दिन दुई देखि धेरै न नै पछि पनि फेरि बीच बाट भए भएको भने भन्ने
भन्दा म मा मात्र यदि यस यसको यसले यो र रही रूपमा ले लागि लाई वा सँग सबै सो हरू हरु हुन हुने हुनेछ हुन्छ हो होइन
""",
    "yi": """
אבער אדער אויב אויף אויך אין איז איך אים איר און אונטער אז ביי ביז דאָס דאס דאָ די דער דעם דו ווי וואָס וואס ווען ווער
וועט זיי זיין זיך זענען זי זאָל זאל האָבן האבן האָט האט מיט מיר ניט נישט נאָך נאך פאַר פאר פון פֿון צו צום קען ער עס
""",
}
"""By the tag of the language, separated by white space."""
