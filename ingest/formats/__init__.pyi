from . import feed as feed, jsonld as jsonld, schemaorg as schemaorg
from .feed import read_feed as read_feed
from .front_matter import (
    read_front_matter as read_front_matter,
    read_own_id as read_own_id,
    split_front_matter as split_front_matter,
)
from .html import read_html as read_html
from .markdown import read_body as read_body, read_markdown as read_markdown, read_text as read_text
from .sitemap import (
    Sitemap as Sitemap,
    is_address_list as is_address_list,
    is_settled as is_settled,
    read_sitemap as read_sitemap,
)
from .xml import (
    SNIFF_BYTES as SNIFF_BYTES,
    XmlKind as XmlKind,
    sniff_xml as sniff_xml,
    strict_parser as strict_parser,
)
