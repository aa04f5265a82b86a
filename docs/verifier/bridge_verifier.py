"""Checks a proof bundle or a portable session of Bridge: python bridge_verifier.py FILE [--log ROOT/SIZE]

Exit status 0: what the file says of itself holds. 1: it does not, and each fault is printed. A bundle has to lead to
the log that is given, if one is. It needs the standard library alone; README.md describes every step.
"""

import base64
import hashlib
import json
import re
import sys

HASHED = ["id", "kind", "semantic_schema_version", "payload_hash", "context_visibility", "external_id", "created_at"]


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def raw(text):
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError(f"no hash: {text}")
    return bytes.fromhex(text)


def parse(text):
    return json.loads(text, parse_float=lambda digits: (digits,))  # a float stays as it was written


def canonical(value):
    if isinstance(value, tuple):
        return value[0]
    if isinstance(value, dict):
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def check_entry(entry, known, faults):
    """Compare an entry with its own hash; ``known`` has the hashes of those before it."""
    state, parent, text = entry["state_digest"], entry["parent_entry_id"], entry.get("payload_text")
    hashed = {name: entry[name] for name in HASHED}
    hashed["stamp"] = {"unknown": entry["unknown_reason"]} if state is None else {"state_digest": state}
    hashed["parent_entry_hash"] = None if parent is None else known.get(parent)
    if (state is None) == (entry["unknown_reason"] is None) or (parent is not None and parent not in known):
        faults.append(f"{entry['id']}: its stamp is not one, or its parent is not before it")
    elif sha(canonical(hashed).encode()).hex() != entry["entry_hash"]:
        faults.append(f"{entry['id']}: its hash does not follow from its fields and its parent")
    if text is not None and (sha(text.encode()).hex() == entry["payload_hash"]) == ("withheld" in entry):
        faults.append(f"{entry['id']}: the payload is not the one that was hashed")
    origin = parse(text).get("forked_from") if text is not None and entry["kind"] == "session.root" else None
    if origin is not None and known.get(origin["entry_id"]) != origin["entry_hash"]:
        faults.append(f"{entry['id']}: it was forked from {origin['entry_id']} under another hash")
    known[entry["id"]] = entry["entry_hash"]


def subtree(hashed, children):
    own, level = sha(b"\x00", raw(hashed)), sorted(children)
    if len(set(level)) != len(level):
        raise ValueError("two siblings have the same hash")
    while len(level) > 1:
        level += level[-1:] * (len(level) % 2)
        level = [sha(b"\x03", level[n], level[n + 1]) for n in range(0, len(level), 2)]
    return sha(b"\x03", own, level[0]) if level else own


def climb(place, last, old, new, proof):
    """Go up a log of RFC 9162: combine the root of its beginning and its own with a proof's hashes."""
    for beside in proof:
        if last == 0:
            raise ValueError("a proof is too long")
        if place & 1 or place == last:
            old, new = sha(b"\x01", beside, old), sha(b"\x01", beside, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = sha(b"\x01", new, beside)
        place, last = place >> 1, last >> 1
    return (old, new) if last == 0 else None


def extends(old, old_root, size, root, proof):
    if old in (0, size):
        return not proof and old_root == (root if old == size else sha())
    path, place, last = ([old_root] if old & (old - 1) == 0 else []) + proof, old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    return climb(place, last, path[0], path[0], path[1:]) == (old_root, root)


def check_bundle(bundle, wanted):
    entry, tree, state, log = bundle["entry"], bundle["tree"], bundle["state"], bundle["log"]
    faults, known, told, computed, above = [], {}, set(), None, entry
    by_id = {one["id"]: one for one in [*bundle["ancestry"], entry]}
    [check_entry(one, known, faults) for one in [*bundle["ancestry"], entry]]
    for beside in tree["children"]:  # from the entry up to the root of its session
        computed = subtree(above["entry_hash"], [raw(one) for one in beside] + ([computed] if computed else []))
        top, above = above, by_id.get(above["parent_entry_id"])
    if top["parent_entry_id"] is not None or computed.hex() != tree["session_root"]:
        faults.append("the entry is not in the tree of the session root")
    if state is not None:
        digests = sha(state["state_text"].encode()).hex(), parse(state["state_text"])["dirty_hash"]
        if digests != (entry["state_digest"], state["dirty_hash"]) or digests[0] != state["state_digest"]:
            faults.append("the repository state is not the one that the entry names")
    payload = {} if entry["payload_text"] is None else parse(entry["payload_text"])
    if any(payload.get(name) != value for name, value in (bundle["result"] or {}).items()):
        faults.append("the result is not the one in the entry's payload")
    for event in bundle["events"]:
        hashed, event_hash = sha(raw(event["previous_event_hash"]), event["text"].encode()), raw(event["event_hash"])
        text, proof = parse(event["text"]), [raw(one) for one in event["inclusion"]]
        body = text["body"]
        if hashed != event_hash or text["chain_id"] != entry["id"].rpartition("-")[0]:
            faults.append(f"event {event['leaf']}: its hash does not follow from its text, or it is another chain's")
        climbed = climb(event["leaf"], log["size"] - 1, b"", sha(b"\x00", event_hash), proof)
        if climbed is None or climbed[1] != raw(log["root"]) or not 0 <= event["leaf"] < log["size"]:
            faults.append(f"event {event['leaf']}: it is not in the log")
        is_entry = body.get("entry_id") == entry["id"] and body.get("entry_hash") == entry["entry_hash"]
        is_root = body.get("session_root") == tree["session_root"] and body.get("sequence") == tree["sequence"]
        told |= {name for name, holds in (("entry", is_entry), ("root", is_root)) if holds} | {text["event_type"]}
    if "root" not in told or not told & {"entry", "session.imported"}:
        faults.append("no event records the entry and the root of its session")
    for one in bundle["anchors"]:
        proof = [raw(hashed) for hashed in one["consistency"]]
        if not extends(one["size"], raw(one["root"]), log["size"], raw(log["root"]), proof):
            faults.append(f"the log does not extend the anchor at {one['source']}")
    if wanted and wanted not in [f"{one['root']}/{one['size']}" for one in [log, *bundle["anchors"]]]:
        faults.append(f"the bundle does not lead to the log {wanted}")
    return faults


def rows_of(page):
    place, rows = 23, []  # each row as its path and all of its bytes
    while place < len(page):
        start, fields = place, []
        while len(fields) < 5 or len(fields) < 8 + 2 * int(fields[4]):
            end = place + 4 + int.from_bytes(page[place : place + 4], "big")
            fields.append(page[place + 4 : end])
            place = end
        rows.append((fields[0], page[start:place]))
    if not page.startswith(b"bridge manifest page 1\n") or place != len(page):
        raise ValueError("a page is cut off, or of another version")
    return rows


def check_session(lines):
    faults, known, pages, last, digest = [], {}, {}, {}, hashlib.sha256()
    records = [parse(line) for line in lines]
    complete = {one["id"] for one in records[0]["sessions"] if one["complete"]}
    for line, record in zip(lines, records, strict=True):
        kind = record["type"]
        if canonical(record).translate({code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}).encode() != line:
            faults.append(f"a line of type {kind} is not canonical")
        if kind == "entry":
            digest.update(line + b"\n")
            session, sequence = record["session_id"], record["sequence"]
            before, last[session] = last.get(session, -1), sequence
            if record["id"] != f"{session}-{sequence:06d}" or sequence <= before:
                faults.append(f"{record['id']}: it is not the entry that its place says")
            if session in complete and sequence != before + 1:
                faults.append(f"{record['id']}: an entry before it is missing")
            text = canonical(record["payload"]) if "payload" in record else record["payload_text"]
            check_entry({**record, "payload_text": text}, known, faults)
        elif kind == "page":
            pages[record["page_digest"]] = body = base64.b64decode(record["body"], validate=True)
            faults += [f"page {record['page_digest']}: altered"] * (sha(body).hex() != record["page_digest"])
        elif kind == "manifest":
            read = [(one["directory"], *row) for one in record["pages"] for row in rows_of(pages[one["page"]])]
            if any(name[:1] != '"' and name.encode() != path.rpartition(b"/")[0] for name, path, _ in read):
                faults.append(f"manifest {record['dirty_hash']}: a page is of another directory")
            rows = sorted(row[1:] for row in read)
            hashed = sha(b"bridge manifest 1\n", *(row for _, row in rows)).hex()
            faults += [f"manifest {record['dirty_hash']}: altered"] * (hashed != record["dirty_hash"])
        elif kind == "state":
            hashed = sha(canonical(record["state"]).encode()).hex()
            faults += [f"state {record['state_digest']}: altered"] * (hashed != record["state_digest"])
    footer, kinds = records[-1], [record["type"] for record in records]
    counts = {"entries": "entry", "states": "state", "manifests": "manifest", "pages": "page"}
    is_whole = kinds[-1] == "footer" and all(footer[name] == kinds.count(kind) for name, kind in counts.items())
    if not is_whole or footer["digest"] != digest.hexdigest():
        faults.append("the file is cut short, or lines of it were taken away or added")
    return faults


def check(data, wanted=None):
    try:
        lines = [line.removesuffix(b"\r") for line in data.removesuffix(b"\n").split(b"\n")]
        first = parse(lines[0])
        if first["format_version"] != 1 or (first["type"] == "bridge.proof" and len(lines) > 1):
            raise ValueError("a version that is not known here, or more than one bundle")
        return check_bundle(first, wanted) if first["type"] == "bridge.proof" else check_session(lines)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        return [f"what is in the file is not of its form: {type(error).__name__}: {error}"]


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        found = check(file.read(), sys.argv[3] if sys.argv[2:3] == ["--log"] else None)
    sys.exit(print("\n".join(found) or "holds") or len(found) > 0)
