"""The option that rewrites the goldens: `pytest tests/golden --rewrite-goldens`, then review the diff."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens", action="store_true", help="Write what is rendered now as the expected output."
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether expected outputs are written instead of compared."""
    return bool(request.config.getoption("--rewrite-goldens", default=False))
