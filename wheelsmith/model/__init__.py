"""Types that all packages share: plain frozen dataclasses with a JSON form."""

from wheelsmith.model.build_host import BuildHost, ImageId, Toolset
from wheelsmith.model.cell import (
    ARCHES,
    CUDA,
    EXCLUDED,
    HOST,
    NO_FRAMEWORK,
    PINNED,
    TORCH,
    WAITING,
    Cell,
    CellSettings,
    Excluded,
    ReleaseRecord,
    release_title,
)
from wheelsmith.model.events import (
    CellFinished,
    CellLine,
    CellProgress,
    CellStage,
    CellStarted,
    CommandStarted,
    Event,
    Expectation,
    Listener,
    Load,
    Notice,
    Preparing,
    RunFinished,
    RunStarted,
    StepFinished,
    Transfer,
    ignore,
    log_notices,
)
from wheelsmith.model.pinned import PinnedFile, PinnedPackage, PinnedTree, PrefixId
from wheelsmith.model.plan import (
    RECORDED_PLAN,
    UPSTREAM,
    BuildPlan,
    Folded,
    LockedWheel,
    Project,
    Recipe,
    RequiredWheel,
    SourceId,
    Step,
    StepKind,
    WheelSpec,
)
from wheelsmith.model.result import BuildResult, Failure, RebuildResult, Status, Timing, Verdict, WheelRecord
from wheelsmith.model.wheel_name import (
    MAX_VERSION_LENGTH,
    VARIANT_LABEL,
    WheelName,
    read_wheel_name,
    same_version,
    wheel_stem,
)
