from . import verify as verify
from .backup import back_up as back_up
from .bucket import (
    Bucket as Bucket,
    BucketAddress as BucketAddress,
    Objects as Objects,
    StoredObject as StoredObject,
    adopt as adopt,
    place_of as place_of,
)
from .copying import copy_collection as copy_collection
from .history import keep_generations as keep_generations, list_generations as list_generations, roll_back as roll_back
from .inventory import (
    Inventory as Inventory,
    kept_for_readers as kept_for_readers,
    leftovers as leftovers,
    take_inventory as take_inventory,
)
from .promotion import Promoted as Promoted, Tenure as Tenure, beat as beat, home_of as home_of, promote as promote
from .publication import (
    CATALOG as CATALOG,
    Catalog as Catalog,
    Count as Count,
    Listed as Listed,
    ListedAlias as ListedAlias,
    Publication as Publication,
    Term as Term,
    changes_prefix as changes_prefix,
    damaged as damaged,
    encode_record as encode_record,
    manifest_key as manifest_key,
    named_files as named_files,
    read_catalog as read_catalog,
    read_heartbeat as read_heartbeat,
)
from .publish import Publisher as Publisher
from .recalibration import Recalibration as Recalibration, recalibrate as recalibrate
from .replica import (
    Replica as Replica,
    pull_problem as pull_problem,
    pulled_at as pulled_at,
    replicated_url as replicated_url,
)
from .restore import restore_archive as restore_archive
from .scrub import Scrub as Scrub, ScrubbedFile as ScrubbedFile, ScrubStopped as ScrubStopped
from .statement import (
    MALFORMED as MALFORMED,
    Accepted as Accepted,
    Claims as Claims,
    Opener as Opener,
    Sha256 as Sha256,
    Signer as Signer,
    accept as accept,
    accepted_at as accepted_at,
    canonical as canonical,
    claims_of as claims_of,
    encode_claims as encode_claims,
    encode_list as encode_list,
    list_key as list_key,
    next_time as next_time,
    payload_of as payload_of,
    read_claims as read_claims,
    refused as refused,
    sha256_of as sha256_of,
)
from .verify import CollectionReport as CollectionReport, Problem as Problem
