from .examples import questions as questions
from .subject import MODELS as MODELS
from .subject import SUBJECT as SUBJECT
from .subject import WEIGHTS as WEIGHTS
from .subject import bundled as bundled
from .world import make_world as make_world
