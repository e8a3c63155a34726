"""GeoTIFF: bands, no-data values, scales, maps and degrees, palettes; written back on the same grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldbench.errors import RequestError
from fieldbench.files import Completion, Selector, read, write

rasterio = pytest.importorskip("rasterio")

MAP = rasterio.transform.from_origin(500_000, 4_000_000, 30, 60)
VALUES = np.arange(24.0).reshape(2, 3, 4)


def save(file: Path, values: np.ndarray, transform: Any = MAP, crs: str = "EPSG:32633", **profile: Any) -> Path:
    bands, height, width = values.shape
    about = {"count": bands, "height": height, "width": width, "dtype": values.dtype.name, "crs": crs, **profile}
    with rasterio.open(file, "w", driver="GTiff", transform=transform, **about) as data:
        data.write(values)
        data.update_tags(title="an example")
        data.set_band_description(1, "red")
        data.set_band_unit(1, "K")
    return file


def test_bands_and_pixels_are_axes(tmp_path: Path) -> None:
    gappy = VALUES.astype("f4")
    gappy[0, 1, 2] = -99
    gridded = read(save(tmp_path / "a.tif", gappy, nodata=-99))
    assert [(axis.name, axis.unit, len(axis)) for axis in gridded.axes] == [
        ("band", "", 2),
        ("y", "m", 3),
        ("x", "m", 4),
    ]
    assert gridded.axes[1].coordinates.tolist() == [3_999_970, 3_999_910, 3_999_850]  # middles of pixels
    assert gridded.axes[2].coordinates.tolist() == [500_015, 500_045, 500_075, 500_105]
    assert np.argwhere(gridded.missing).tolist() == [[0, 1, 2]]
    red = read(tmp_path / "a.tif", Selector(variable="red"))
    assert (red.values.shape, red.variable.unit) == ((3, 4), "K")
    np.testing.assert_array_equal(read(tmp_path / "a.tif", Selector(variable="2")).values, VALUES[1])
    for wrong in ("3", "green"):
        with pytest.raises(RequestError, match=f"no band '{wrong}'; give a number from 1 to 2, or red"):
            read(tmp_path / "a.tif", Selector(variable=wrong))


def test_degrees_are_longitudes_and_latitudes(tmp_path: Path) -> None:
    around = rasterio.transform.from_origin(-180, 90, 10, 30)
    gridded = read(save(tmp_path / "a.tif", np.ones((1, 6, 36), dtype="f4"), around, "EPSG:4326"))
    assert [(axis.name, axis.unit, axis.period) for axis in gridded.axes] == [
        ("latitude", "degrees_north", None),
        ("longitude", "degrees_east", 360),
    ]


def test_a_rotated_map_is_measured_in_pixels(tmp_path: Path) -> None:
    turned = MAP @ rasterio.Affine.rotation(30) if hasattr(MAP, "__matmul__") else MAP * rasterio.Affine.rotation(30)
    gridded = read(save(tmp_path / "a.tif", VALUES, turned))
    assert gridded.remarks == ("a.tif is rotated; distances are measured in pixels",)


@pytest.mark.parametrize(("variable", "written"), [(None, 2), ("red", 1)])
def test_written_back_all_else_is_kept(tmp_path: Path, variable: str | None, written: int) -> None:
    gappy = VALUES.astype("f4")
    gappy[:, 1, 2] = -99
    source, target = save(tmp_path / "a.tif", gappy, nodata=-99, compress="deflate"), tmp_path / "out.tif"
    gridded = read(source, Selector(variable=variable))
    made = np.nan_to_num(gridded.values, nan=7.5)
    made[..., 0, 0] = np.nan
    files = write(source, target, Completion(gridded, made, made + 1, {"method": "tnn"}))
    assert [file.name for file in files] == ["out.tif", "out_std.tif", "out_filled.tif"]
    expected = gappy.copy()
    expected[:written, 1, 2], expected[:written, 0, 0] = 7.5, -99
    with rasterio.open(target) as after, rasterio.open(source) as before:
        np.testing.assert_array_equal(after.read(), expected)
        for key in ("crs", "transform", "nodata", "dtype", "compress", "count"):
            assert after.profile[key] == before.profile[key]
        assert after.descriptions == before.descriptions
        assert after.units == before.units
        assert after.tags()["title"] == "an example"
        assert (after.tags(1) if variable else after.tags())["fieldbench_method"] == "tnn"
    with rasterio.open(tmp_path / "out_filled.tif") as filled, rasterio.open(tmp_path / "out_std.tif") as deviation:
        assert np.argwhere(filled.read() == 1).tolist() == [[band, 1, 2] for band in range(written)]
        np.testing.assert_array_equal(deviation.read(), (made + 1).reshape(written, 3, 4))
        assert filled.transform == MAP


def test_scaled_numbers_are_written_as_floats(tmp_path: Path) -> None:
    source, target = save(tmp_path / "a.tif", VALUES.astype("i2"), nodata=5), tmp_path / "out.tif"
    with rasterio.open(source, "r+") as data:
        data.scales, data.offsets = (0.5, 0.5), (10.0, 10.0)
    gridded = read(source)
    assert np.argwhere(gridded.missing).tolist() == [[0, 1, 1]]
    assert gridded.values[1, 2, 3] == 21.5
    made = np.nan_to_num(gridded.values, nan=7.25)
    write(source, target, Completion(gridded, made))
    np.testing.assert_array_equal(read(target).values, made)


def test_classes_of_a_palette_stay_classes(tmp_path: Path) -> None:
    use = np.array([[[1, 2, 0], [2, 1, 1]]], dtype="u1")
    source, target = save(tmp_path / "a.tif", use, nodata=0, photometric="palette"), tmp_path / "out.tif"
    with rasterio.open(source, "r+") as data:
        data.write_colormap(1, {1: (255, 0, 0, 255), 2: (0, 255, 0, 255)})
    gridded = read(source)
    assert gridded.classes == (1.0, 2.0)
    write(source, target, Completion(gridded, np.nan_to_num(gridded.values, nan=2.0)))
    with rasterio.open(target) as after:
        assert after.read().tolist() == [[[1, 2, 2], [2, 1, 1]]]
        assert after.dtypes == ("uint8",)
        assert after.colormap(1)[2] == (0, 255, 0, 255)


def test_a_damaged_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(b"II*\x00")
    with pytest.raises(RequestError, match=r"cannot be read as \.tif"):
        read(tmp_path / "a.tif")


def test_a_lossy_compression_is_not_used_again(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(50, 200, size=(1, 32, 32)).astype("u1")
    values[0, 3, 4] = 0
    file = save(tmp_path / "a.tif", values, nodata=0, compress="jpeg")
    gridded = read(file)
    made = np.where(np.isnan(gridded.values), 77, gridded.values)
    write(file, tmp_path / "out.tif", Completion(gridded, made, np.full(made.shape, 0.5)))
    np.testing.assert_array_equal(read(tmp_path / "out.tif").values, made)
    np.testing.assert_array_equal(read(tmp_path / "out_std.tif").values, np.full(made.shape, 0.5))


def test_tags_of_all_namespaces_are_kept(tmp_path: Path) -> None:
    file = save(tmp_path / "a.tif", VALUES.astype("f4"), nodata=0)
    with rasterio.open(file, "r+") as data:
        data.update_tags(ns="survey", ship="Meteor")
    gridded = read(file)
    write(file, tmp_path / "out.tif", Completion(gridded, np.nan_to_num(gridded.values, nan=7.0)))
    with rasterio.open(tmp_path / "out.tif") as data:
        assert data.tags(ns="survey") == {"ship": "Meteor"}
