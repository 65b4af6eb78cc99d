import io
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pytest

from octavo_shared.figures import PALETTE, figure, figures, png, save, svg


def drawn():
    picture, axes = figure(width=5, height=2.5)
    axes.plot([0, 1], [0, 1])
    return picture


def test_png_is_an_image_of_the_asked_shape_with_something_on_it():
    pixels = matplotlib.image.imread(io.BytesIO(png(drawn())))
    height, width = pixels.shape[:2]
    assert width == 2 * height
    blue = np.array([int(PALETTE[0][i : i + 2], 16) for i in (1, 3, 5)]) / 255
    assert (np.abs(pixels[..., :3] - blue).max(axis=-1) < 0.01).sum() > 100


def test_svg_is_xml_and_the_same_every_time():
    first = svg(drawn())
    assert ElementTree.fromstring(first).tag == "{http://www.w3.org/2000/svg}svg"
    assert svg(drawn()) == first


def test_save(tmp_path):
    for suffix in (".png", ".svg"):
        assert save(drawn(), tmp_path / f"curve{suffix}").stat().st_size > 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curve.png", "curve.svg"]
    with pytest.raises(ValueError, match=r"as \.png or \.svg; got 'curve\.pdf'"):
        save(drawn(), tmp_path / "curve.pdf")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        save(drawn(), tmp_path / "nowhere" / "curve.png")


def test_rows_share_the_horizontal_axis():
    _, (above, below) = figures(2, height_ratios=[1, 2])
    above.set_xlim(0, 7)
    assert below.get_xlim() == (0, 7)
