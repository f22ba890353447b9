"""Raw steps as bytes and back; what doesn't fit is refused."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import tree

from boonta.agents.base import Steps, Table
from boonta.nodes.tables.reverb.server import make_table, table_info
from boonta.nodes.tables.reverb.signature import columns, decode, encode, layout, pack, unpack, unpack_columns
from boonta.tests.helpers.store_judge import SIGNATURE, row


def test_steps_come_back_in_their_classes_shapes_and_dtypes():
    steps = row(7)
    rows, core = pack(steps._replace(core=())), pack(steps.core)
    assert rows.dtype == np.uint8 and rows.shape == (2, 8 + 2 + 4 + 4 + 4 + 4 + 4 + 8 + 4 + 4) and core.shape == (2, 12)
    back = unpack_columns(SIGNATURE, [rows[None], core[None]])  # [T, B, ...]
    assert jax.tree.structure(back) == jax.tree.structure(steps)
    for leaf, wanted in zip(tree.flatten(back), tree.flatten(steps), strict=True):
        assert leaf.dtype == wanted.dtype
        np.testing.assert_array_equal(leaf[0], wanted)


def test_leaves_without_a_class_are_packed_alike():
    steps = row(7)
    np.testing.assert_array_equal(pack(steps.extras), pack(tuple(tree.flatten(steps.extras))))
    assert pack(()) is None


def test_a_row_of_another_length_is_refused_with_the_layout():
    like = {"x": jax.ShapeDtypeStruct((3,), np.float32), "done": jax.ShapeDtypeStruct((), bool)}
    assert layout(like) == "done:bool[] x:float32[3]"
    with pytest.raises(ValueError, match=r"12 bytes, but done:bool\[\] x:float32\[3\] has 13"):
        unpack(like, np.zeros((5, 12), np.uint8))


def test_a_table_says_what_its_columns_hold():
    table = Table("t", "queue", 3, 2, batch_size=4, size=8)
    steps, core = columns(table, SIGNATURE)
    assert steps[:2] == (3, 46) and "reward:float32[]" in steps.layout
    assert core == (1, 12, layout(SIGNATURE.core))
    assert len(columns(table, Steps(*SIGNATURE[:7]))) == 1


@pytest.mark.cluster
def test_reverb_and_tensorflow_read_the_signature_as_ours():
    """TensorFlow's own code made the signatures of older checkpoints, which must be found the same."""
    coder = pytest.importorskip("tensorflow.python.saved_model.nested_structure_coder")
    import tensorflow as tf

    table = Table("t", "queue", 3, 2, batch_size=4, size=8)
    wanted = [tf.TensorSpec(column[:2], tf.uint8, column.layout) for column in columns(table, SIGNATURE)]
    assert encode(columns(table, SIGNATURE)) == coder.encode_structure(wanted).SerializeToString()
    info = table_info(make_table(table, SIGNATURE))
    assert decode(info.signature) == columns(table, SIGNATURE)
