import pytest
from installers import Installers
from torches import world


@pytest.fixture(scope="session")
def loopback(tmp_path_factory):
    """One published index, and the indexes that torch comes from."""
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(scope="session")
def tools(tmp_path_factory):
    """Every installer."""
    return Installers(tmp_path_factory.mktemp("tools"))
