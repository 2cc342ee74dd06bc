"""What similarity learns from: judgements, the events of corpora, calibrations and models."""

from sql.similarity.calibrations import CalibrationGateway
from sql.similarity.corpora import CorpusGateway
from sql.similarity.forecasts import (
    ForecastGateway,
    ForecastRecordRow,
    RecordFigures,
    ResolvedForecastRow,
)
from sql.similarity.judgements import FeedbackStateRow, JudgementGateway, UnresolvedEventRow
from sql.similarity.learned_models import LearnedModelGateway, LearnedModelRow
from sql.similarity.parts import (
    HeldPartsRow,
    PartAnswerRow,
    PartGateway,
    PartRequestRow,
    PartRow,
    Span,
)

__all__ = [
    "CalibrationGateway",
    "CorpusGateway",
    "FeedbackStateRow",
    "ForecastGateway",
    "ForecastRecordRow",
    "HeldPartsRow",
    "JudgementGateway",
    "LearnedModelGateway",
    "LearnedModelRow",
    "PartAnswerRow",
    "PartGateway",
    "PartRequestRow",
    "PartRow",
    "RecordFigures",
    "ResolvedForecastRow",
    "Span",
    "UnresolvedEventRow",
]
