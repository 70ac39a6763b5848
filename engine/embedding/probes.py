"""The texts of the self-test of exported graphs: queries with their relevant passages, and unusual texts. Calibration
asks the queries and passages as texts about many subjects.

Passages form groups of similar ones, so that ranking them is not trivial.
"""

from __future__ import annotations

PROBES: tuple[tuple[str, str], ...] = (
    (
        "how do vaccines protect the body",
        "A vaccine shows the immune system a harmless piece of a pathogen. Memory cells remain afterwards, "
        "and when the real pathogen arrives they multiply within days instead of weeks.",
    ),
    (
        "why do antibiotics not help against a cold",
        "Antibiotics attack structures that only bacteria have, such as their cell wall. A cold is caused by "
        "viruses, which lack them, so the drug does nothing but select resistant bacteria.",
    ),
    (
        "treatment of high blood pressure",
        "Hypertension is first treated with less salt, more movement and less weight; where that is not "
        "enough, ACE inhibitors, calcium channel blockers or diuretics follow.",
    ),
    (
        "symptoms of diabetes type 2",
        "Thirst, frequent urination, tiredness and blurred sight can be signs of type 2 diabetes, in which "
        "the cells respond less and less to insulin. Many people notice nothing for years.",
    ),
    (
        "what does the hippocampus do",
        "Patients whose hippocampus was removed could hold a conversation yet formed no new memories of it: "
        "the structure is needed to turn experience into lasting episodic memory.",
    ),
    (
        "CRISPR gene editing mechanism",
        "Cas9 is led by a guide RNA to a matching sequence of 20 bases and cuts both strands of the DNA "
        "there; the cell repairs the cut, which disables the gene or takes up a template.",
    ),
    (
        "refund for a cancelled flight",
        "If your flight is cancelled you may choose between a refund of the full fare within seven days and "
        "another connection. Vouchers need your consent in writing.",
    ),
    (
        "how much luggage may I bring on board",
        "Cabin baggage must not exceed 55 x 40 x 20 cm and 8 kg. Liquids go into containers of at most 100 "
        "ml, all of them in one transparent bag.",
    ),
    (
        "return a damaged parcel",
        "Did your order arrive broken? Send us a photograph within 14 days; we pay for the return label and "
        "send a replacement as soon as the carrier has scanned the parcel.",
    ),
    (
        "opening hours of the museum on public holidays",
        "The museum is open Tuesday to Sunday from 10 am to 6 pm and closed on Mondays, except when Monday "
        "is a public holiday.",
    ),
    (
        "reverse a linked list",
        "def reverse(node):\n    previous = None\n    while node:\n        node.next, previous, node = "
        "previous, node, node.next\n    return previous",
    ),
    (
        "read a csv file line by line",
        "with open(path, newline='') as file:\n    for row in csv.DictReader(file):\n        total += "
        "float(row['amount'])",
    ),
    (
        "binary search in a sorted array",
        "fn find(items: &[u32], wanted: u32) -> Option<usize> { let (mut low, mut high) = (0, items.len()); "
        "while low < high { let middle = (low + high) / 2; if items[middle] < wanted { low = middle + 1 } "
        "else { high = middle } } (low < items.len() && items[low] == wanted).then_some(low) }",
    ),
    (
        "retry a request with exponential backoff",
        "async function retry(call, times = 5) { for (let n = 0; ; n++) { try { return await call() } catch "
        "(error) { if (n === times) throw error; await sleep(2 ** n * 100) } } }",
    ),
    (
        "SQL customers without any order",
        "SELECT c.id, c.name FROM customers c LEFT JOIN orders o ON o.customer_id = c.id WHERE o.id IS NULL "
        "ORDER BY c.name;",
    ),
    (
        "undo the last git commit but keep the changes",
        "git reset --soft HEAD~1 moves the branch back by one commit and leaves the index and the working "
        "tree as they are; --hard would discard the changes.",
    ),
    (
        "what is a deadlock",
        "Two threads wait for each other for ever when each holds a lock that the other needs. Taking locks "
        "in one global order rules this out.",
    ),
    (
        "difference between a process and a thread",
        "Processes have address spaces of their own; threads of one process share its memory, which makes "
        "passing data cheap and corrupting it easy.",
    ),
    (
        "approximate nearest neighbour search",
        "An inverted file index assigns each vector to the closest of k centroids and searches only the "
        "lists nearest to the query; product quantisation shortens what is stored in them.",
    ),
    (
        "full text ranking function",
        "BM25 weighs a term by how rare it is among documents and lets its frequency within one document "
        "saturate, while long documents are scaled down.",
    ),
    (
        "when did the Berlin wall fall",
        "On the evening of 9 November 1989 a spokesman announced that East Germans could travel at once. "
        "Crowds went to the crossings and the guards opened the gates.",
    ),
    (
        "causes of the first world war",
        "Alliances, an arms race and rivalry in the Balkans had made Europe a powder keg before an archduke "
        "was shot in Sarajevo in June 1914.",
    ),
    (
        "who built the pyramids of Giza",
        "The great pyramid was raised for Khufu around 2560 BC by paid crews of workers, whose bakeries and "
        "graves have been excavated beside it.",
    ),
    (
        "invention of the printing press",
        "Gutenberg combined movable metal type, oil-based ink and a wine press in Mainz around 1450; within "
        "fifty years presses stood in more than 200 cities.",
    ),
    (
        "how are black holes detected",
        "A black hole gives itself away by what is near it: stars that orbit nothing visible, gas that heats "
        "up in a disc, and ripples in spacetime when two of them merge.",
    ),
    (
        "why is the sky blue",
        "Air molecules scatter short wavelengths far more strongly than long ones, so that blue light "
        "reaches us from all over the sky, and sunsets, seen through more air, are red.",
    ),
    (
        "how do plants turn light into sugar",
        "In the chloroplast light splits water; the electrons and the protons that are set free make ATP and "
        "NADPH, which the Calvin cycle spends on fixing carbon dioxide.",
    ),
    (
        "what causes tides",
        "The moon pulls the near side of the earth more than its centre and the far side less, which leaves "
        "two bulges of water that the turning earth passes through.",
    ),
    (
        "interest rates and inflation",
        "When prices rise too fast a central bank raises its rate: credit becomes dearer, households and "
        "firms spend less, and demand cools down.",
    ),
    (
        "what is an index fund",
        "Instead of choosing shares, such a fund holds all of an index in proportion. Fees are low, and over "
        "decades few managers have beaten it.",
    ),
    (
        "termination of an employment contract",
        "§ 622: notice of four weeks to the fifteenth or the end of a month; the period grows with the years "
        "of service. Notice must be given in writing, e-mail does not suffice.",
    ),
    (
        "liability for defects of a rented flat",
        "If the heating fails in winter the tenant may reduce the rent until the landlord has it repaired, "
        "provided that the defect was reported without delay.",
    ),
    (
        "recipe for pizza dough",
        "Mix 500 g of flour with 325 ml of water, 10 g of salt and 2 g of yeast, knead for ten minutes and "
        "let it rise in the fridge for a day before you shape it.",
    ),
    (
        "how long to boil an egg",
        "From boiling water: six minutes for a soft yolk, eight for a waxy one and ten for a hard one; then "
        "into cold water, so that it peels well.",
    ),
    (
        "training plan for a marathon",
        "Build up over sixteen weeks: three easy runs, one session of intervals and a long run that grows to "
        "32 km, and cut the volume by half in the last two weeks.",
    ),
    (
        "rules of offside in football",
        "A player is offside when, at the moment of the pass, any part that can score is nearer to the goal "
        "line than both the ball and the second-last opponent.",
    ),
    (
        "Wie beantrage ich einen Reisepass?",
        "Den Reisepass beantragen Sie persönlich im Bürgeramt. Bringen Sie ein biometrisches Foto, Ihren "
        "Personalausweis und 70 Euro mit; die Ausstellung dauert etwa vier Wochen.",
    ),
    (
        "horaires du train pour Lyon",
        "Le premier train à destination de Lyon part à 6 h 04 de la gare centrale, puis toutes les "
        "demi-heures jusqu'à 22 h 34. La réservation est obligatoire le week-end.",
    ),
    (
        "receta de tortilla de patatas",
        "Pela un kilo de patatas, fríelas despacio en aceite de oliva con una cebolla, escúrrelas, mézclalas "
        "con seis huevos batidos y cuaja la tortilla por ambos lados.",
    ),
    (
        "東京の天気",
        "明日の東京は晴れのち曇り、最高気温は二十四度、降水確率は十パーセントの見込みです。",
    ),
)

ODD_TEXTS: tuple[str, ...] = (
    "",
    "a",
    "?!",
    "4 8 15 16 23 42, 3.14159e-10, 0xDEADBEEF, 2026-04-01T10:00:00Z",
    "🙂🚀 naïve café ﬁnance Ωμέγα Привет мир مرحبا بالعالم",
    'https://example.org/a/b?c=d&e=%20f#section-3 <b>not</b> &amp; {"json": [1, 2, null]}',
    "SHOUTED WORDS IN A TITLE: TERMS AND CONDITIONS APPLY",
    "word " * 400,
)


def probe_texts() -> list[str]:
    """All queries, then all passages in the same order, then unusual texts and texts beyond a model's length."""
    queries, passages = zip(*PROBES, strict=True)
    long = [" ".join(passages[start : start + 10]) for start in range(0, len(passages), 10)]
    return [*queries, *passages, *ODD_TEXTS, *long]
