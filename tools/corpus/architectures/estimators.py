"""Estimators of scikit-learn, xgboost and lightgbm, fitted to made-up rows and exported by skl2onnx and onnxmltools."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tools.corpus.feeds import normal, uniform
from tools.corpus.subject import Subject

WIDTH = 8
_SIZES = ({"rows": 37}, {"rows": 1}, {"rows": 1000})
Task = Literal["classes", "two", "words", "number", "numbers", "nothing"]


@dataclass(frozen=True)
class Estimator:
    """One fitted pipeline: the paths of its steps' classes below their package, each with its parameters.

    ``task`` says what it learns: three classes, two, three that are words, a number, two numbers, or nothing.
    ``options`` are skl2onnx's; ``positive`` rows hold no negative number.
    """

    name: str
    task: Task
    steps: tuple[tuple[str, Mapping[str, Any]], ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    positive: bool = False

    @property
    def package(self) -> str:
        """The package of the last step."""
        return self.steps[-1][0].partition(".")[0]


def _one(path: str, task: Task, name: str = "", positive: bool = False, zipmap: object = None, **parameters: Any) -> Estimator:
    title = name or f"{path.rpartition('.')[2]}-{task}"
    options = {} if zipmap is None else {"zipmap": zipmap}
    return Estimator(title, task, ((path, parameters),), options, positive)


def _before(path: str, positive: bool = False, **parameters: Any) -> Estimator:
    """A transformer in front of a linear model."""
    steps: tuple[tuple[str, Mapping[str, Any]], ...] = ((f"sklearn.{path}", parameters), ("sklearn.linear_model.Ridge", {}))
    return Estimator(f"{path.rpartition('.')[2]}-pipeline", "number", steps, positive=positive)


FOREST: dict[str, Any] = {"n_estimators": 20, "max_depth": 6}
ESTIMATORS: tuple[Estimator, ...] = (
    _before("preprocessing.StandardScaler"),
    _before("preprocessing.MinMaxScaler"),
    _before("preprocessing.RobustScaler"),
    _before("preprocessing.Normalizer"),
    _before("preprocessing.PolynomialFeatures", degree=2),
    _before("preprocessing.PowerTransformer", positive=True),
    _before("preprocessing.KBinsDiscretizer", n_bins=4, encode="onehot-dense"),
    _before("preprocessing.QuantileTransformer", n_quantiles=50),
    _before("impute.SimpleImputer"),
    _before("impute.KNNImputer"),
    _before("decomposition.PCA", n_components=3),
    _before("decomposition.KernelPCA", n_components=3, kernel="rbf"),
    _before("feature_selection.SelectKBest", k=3),
    _one("sklearn.linear_model.LogisticRegression", "classes"),
    _one("sklearn.linear_model.LogisticRegression", "two"),
    _one("sklearn.linear_model.LogisticRegression", "words"),
    _one("sklearn.linear_model.LogisticRegression", "classes", "LogisticRegression-tensor", zipmap=False),
    _one("sklearn.linear_model.LogisticRegression", "classes", "LogisticRegression-columns", zipmap="columns"),
    _one("sklearn.linear_model.SGDClassifier", "classes", loss="log_loss"),
    _one("sklearn.tree.DecisionTreeClassifier", "classes", max_depth=5),
    _one("sklearn.ensemble.RandomForestClassifier", "classes", **FOREST),
    _one("sklearn.ensemble.RandomForestClassifier", "words", **FOREST),
    _one("sklearn.ensemble.GradientBoostingClassifier", "classes", n_estimators=15),
    _one("sklearn.ensemble.GradientBoostingClassifier", "two", n_estimators=15),
    _one("sklearn.ensemble.AdaBoostClassifier", "classes", n_estimators=8),
    _one("sklearn.ensemble.StackingClassifier", "classes"),
    _one("sklearn.svm.SVC", "classes", probability=True),
    _one("sklearn.svm.SVC", "two", kernel="poly"),
    _one("sklearn.svm.SVC", "words", probability=True),
    _one("sklearn.svm.LinearSVC", "classes"),
    _one("sklearn.neighbors.KNeighborsClassifier", "classes"),
    _one("sklearn.neighbors.KNeighborsClassifier", "words", weights="distance"),
    _one("sklearn.naive_bayes.GaussianNB", "classes"),
    _one("sklearn.naive_bayes.MultinomialNB", "classes", positive=True),
    _one("sklearn.neural_network.MLPClassifier", "classes", hidden_layer_sizes=(16, 8), max_iter=50),
    _one("sklearn.discriminant_analysis.LinearDiscriminantAnalysis", "classes"),
    _one("sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis", "classes", reg_param=0.1),
    _one("sklearn.linear_model.LinearRegression", "number"),
    _one("sklearn.linear_model.PoissonRegressor", "number"),
    _one("sklearn.ensemble.RandomForestRegressor", "number", **FOREST),
    _one("sklearn.ensemble.RandomForestRegressor", "numbers", **FOREST),
    _one("sklearn.ensemble.GradientBoostingRegressor", "number", n_estimators=20),
    _one("sklearn.ensemble.AdaBoostRegressor", "number", n_estimators=8),
    _one("sklearn.svm.SVR", "number"),
    _one("sklearn.neighbors.KNeighborsRegressor", "numbers"),
    _one("sklearn.gaussian_process.GaussianProcessRegressor", "number"),
    _one("sklearn.neural_network.MLPRegressor", "number", hidden_layer_sizes=(8,), max_iter=50),
    _one("sklearn.cross_decomposition.PLSRegression", "numbers"),
    _one("sklearn.ensemble.IsolationForest", "nothing", n_estimators=10),
    _one("sklearn.neighbors.LocalOutlierFactor", "nothing", novelty=True),
    _one("sklearn.svm.OneClassSVM", "nothing"),
    _one("sklearn.cluster.KMeans", "nothing", n_clusters=4),
    _one("sklearn.mixture.GaussianMixture", "nothing", n_components=3),
    _one("xgboost.XGBClassifier", "classes", n_estimators=10, max_depth=4),
    _one("xgboost.XGBClassifier", "two", n_estimators=10, max_depth=4),
    _one("xgboost.XGBRegressor", "number", n_estimators=10),
    _one("lightgbm.LGBMClassifier", "classes", n_estimators=10, verbose=-1, n_jobs=1),
    _one("lightgbm.LGBMRegressor", "number", n_estimators=10, verbose=-1, n_jobs=1),
)


def _rows(task: Task, positive: bool) -> tuple[Any, Any]:
    """400 rows of float32, and what is to be learnt of them."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, WIDTH)).astype(np.float32)
    rows = np.abs(rows) if positive else rows
    score = rows[:, :4].sum(1) + np.sin(3 * rows[:, 4])
    classes = np.digitize(score, np.quantile(score, (0.3, 0.7)))
    learnt: dict[Task, Any] = {
        "classes": classes,
        "two": (classes > 0).astype(np.int64),
        "words": np.array(["low", "middle", "high"])[classes],
        "number": np.abs(score),
        "numbers": np.stack([score, score**2], 1),
        "nothing": None,
    }
    return rows, learnt[task]


def _made(path: str, parameters: Mapping[str, Any]) -> Any:
    module, _, name = path.rpartition(".")
    if name == "StackingClassifier":
        parts = ("sklearn.linear_model.LogisticRegression", "sklearn.tree.DecisionTreeClassifier")
        parameters = {"estimators": [(part[-6:], _made(part, {})) for part in parts], **parameters}
    made = getattr(importlib.import_module(module), name)
    return made(**parameters)


def _exported(item: Estimator, folder: Path) -> Path:
    rows, learnt = _rows(item.task, item.positive)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = [_made(path, parameters) for path, parameters in item.steps]
        fitted = importlib.import_module("sklearn.pipeline").make_pipeline(*steps) if len(steps) > 1 else steps[0]
        fitted = fitted.fit(rows) if learnt is None else fitted.fit(rows, learnt)
        if item.package == "sklearn":
            options = {"options": dict(item.options)} if item.options else {}
            model = importlib.import_module("skl2onnx").to_onnx(
                fitted, rows[:1], target_opset={"": 18, "ai.onnx.ml": 3}, **options
            )
        else:
            tools = importlib.import_module("onnxmltools")
            formal = tools.convert.common.data_types.FloatTensorType([None, WIDTH])
            convert = {"xgboost": tools.convert_xgboost, "lightgbm": tools.convert_lightgbm}[item.package]
            model = convert(fitted, initial_types=[("X", formal)])
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def _subject(item: Estimator) -> Subject:
    exporter = "skl2onnx" if item.package == "sklearn" else f"onnxmltools ({item.package})"
    feed = uniform("rows", WIDTH, low=0, high=3) if item.positive else normal("rows", WIDTH)
    return Subject(f"{item.package}-{item.name}", exporter, "exported", partial(_exported, item), _SIZES, {"X": feed})


SUBJECTS = tuple(map(_subject, ESTIMATORS))
