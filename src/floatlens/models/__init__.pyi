from .base import Kind as Kind
from .base import LanguageModel as LanguageModel
from .base import Pass as Pass
from .base import PassObserver as PassObserver
from .loading import load as load
from .names import registered_names as registered_names
from .registry import families as families
from .shuffling import shuffled as shuffled
