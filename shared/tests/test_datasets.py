import subprocess
import sys

import numpy as np

from octavo_shared.datasets import digits


def test_digits():
    found = digits()
    assert found.images.shape == (1797, 8, 8)
    assert found.images.dtype == np.float32
    assert (found.images.min(), found.images.max()) == (0.0, 1.0)
    assert found.labels.shape == (1797,)
    assert np.bincount(found.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_without_scikit_learn_the_extra_is_named():
    code = "import sys; sys.modules['sklearn'] = None\nfrom octavo_shared.datasets import digits; digits()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "digits() needs scikit-learn: pip install 'octavo-shared[datasets]'" in done.stderr
