"""An index in a bucket is an index: built, changed, searched and migrated on a local S3-compatible server. Slow."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anaume.bundle import Bundle
from anaume.errors import DataError
from anaume.jobs.index import add_to_index, build_index, migrate
from anaume.search import open_index

server = pytest.importorskip("moto.server", reason="no S3-compatible server: pip install 'moto[s3]' flask flask-cors")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:[0-9.]+% of the pieces"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:(moto|botocore|werkzeug|responses)"),
]

ROWS = [{"id": n, "text": f"the {word} is old", "n": n} for n, word in enumerate(["dog", "cat", "river", "bank"] * 5)]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket that is reached as any other: by the environment."""
    s3 = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    s3.start()
    address = "http://{}:{}".format(*s3.get_host_and_port())
    urllib.request.urlopen(urllib.request.Request(f"{address}/passages", method="PUT"), timeout=60).close()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT": address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
        }.items():
            patch.setenv(name, value)
        yield "s3://passages"
    s3.stop()


def test_a_bucket_holds_what_a_folder_holds(bundle: Bundle, bucket: str, tmp_path: Path) -> None:
    first, more = tmp_path / "first.jsonl", tmp_path / "more.jsonl"
    first.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:12]))
    more.write_text("".join(json.dumps(row) + "\n" for row in ROWS[12:]))
    remote, local = f"{bucket}/deep/idx", tmp_path / "idx"
    for out in (remote, local):
        build_index(bundle, first, out)
        assert build_index(bundle, first, out).finished_before
        assert add_to_index(open_index(out, bundle), more).documents == 8
        open_index(out, bundle).update([{"id": 3, "text": "the money"}])
        open_index(out, bundle).delete([4])
    searches: tuple[dict[str, Any], ...] = ({}, {"where": "n > 7"}, {"hybrid": True})
    for options in searches:
        there, here = (open_index(out).search("the old dog", top_k=50, **options) for out in (remote, local))
        assert there == here
        assert there
    migrate(remote, bundle, passage_length=12)
    stats = open_index(remote).compact()
    assert (stats.documents, stats.passage_length) == (19, 12)


def test_a_bucket_that_is_not_there_is_one_line(bundle: Bundle, bucket: str) -> None:
    with pytest.raises(DataError, match="no index is there"):
        open_index(f"{bucket}/elsewhere")
    with pytest.raises(DataError, match="the bucket can't be reached: see to its name") as caught:
        open_index("s3://nobodys-bucket/idx")
    assert "\n" not in str(caught.value)
