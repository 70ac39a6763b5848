from . import verify as verify
from .backup import back_up as back_up
from .bucket import (
    Bucket as Bucket,
    BucketAddress as BucketAddress,
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
from .publication import read_heartbeat as read_heartbeat
from .publisher import StorePublisher as StorePublisher
from .recalibration import Recalibration as Recalibration, recalibrate as recalibrate
from .replica import (
    Replica as Replica,
    pull_problem as pull_problem,
    pulled_at as pulled_at,
    replicated_url as replicated_url,
)
from .restore import restore_archive as restore_archive
from .scrub import Scrub as Scrub, ScrubbedFile as ScrubbedFile, ScrubStopped as ScrubStopped
from .statement import accepted_at as accepted_at
from .verify import CollectionReport as CollectionReport, StoreProblem as StoreProblem
