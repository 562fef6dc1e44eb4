"""Board values (B1 to B8): what is taken out of the Notion adapter, and which test must then fail."""

TESTS = "tests/sources/notion/test_board_values.py"
CARDS = "sources/notion/cards.py"
TEXT = "sources/notion/text.py"

TABLE = [
    (
        "B1 LastError is cut to its limit",
        CARDS,
        'cut(text, ERROR_UNITS, note=ERROR_NOTE) if logical == "last_error" else cut(text, LABEL_UNITS)',
        "text",
        f"{TESTS}::test_B1_failed_write_never_fails",
    ),
    (
        "B1 length is counted in UTF-16 units",
        TEXT,
        '    return len(text) + sum(letter > "\\uffff" for letter in text)\n',
        "    return len(text)\n",
        f"{TESTS}::test_B1_failed_write_never_fails",
    ),
    (
        "B1 a lone surrogate and a NUL are not sent",
        TEXT,
        "for piece in pieces(clean(text))]",
        "for piece in pieces(text)]",
        f"{TESTS}::test_B1_failed_write_never_fails",
    ),
    (
        "B2 options by id",
        CARDS,
        'return {column.type: {"id": columns.option_for(CardStatus(value)).id}}',
        'return {column.type: {"name": columns.option_for(CardStatus(value)).name}}',
        f"{TESTS}::test_B2_options_renamed_while_running",
    ),
    (
        "B3 every segment of a title",
        TEXT,
        'return storable("".join(_plain(segment) for segment in segments if isinstance(segment, dict)))',
        'return storable("".join(_plain(segment) for segment in segments[:1] if isinstance(segment, dict)))',
        f"{TESTS}::test_B3_empty_title_strange_title_column_and_nulls",
    ),
    (
        "B4 a claim needs every column",
        "sources/notion/columns.py",
        '        if self.missing:\n            raise Misconfigured(f"{explain(self.missing)}.',
        '        if False:\n            raise Misconfigured(f"{explain(self.missing)}.',
        f"{TESTS}::test_B4_column_deleted_while_running",
    ),
    (
        "B5 no comma in the name of an option",
        "sources/notion/config.py",
        '    if "," in name:\n',
        "    if False:\n",
        f"{TESTS}::test_B5_comma_in_the_name_of_an_option_is_refused_at_the_door",
    ),
    (
        "B5 no empty segment",
        TEXT,
        "    while text:\n        head",
        "    while True:\n        if not text:\n            yield ''\n            return\n        head",
        f"{TESTS}::test_B5_neither_colour_nor_empty_segment_is_sent",
    ),
    (
        "B6 a column of an unknown type is ignored",
        CARDS,
        "    except (KeyError, TypeError, ValueError, AttributeError):\n        return []\n",
        "    except ZeroDivisionError:\n        return []\n",
        f"{TESTS}::test_B6_column_of_an_unknown_type_is_ignored",
    ),
    (
        "B7 instants are written in UTC",
        CARDS,
        "    floored = at.astimezone(UTC).replace(second=0, microsecond=0)\n",
        "    floored = at.replace(second=0, microsecond=0)\n",
        f"{TESTS}::test_B7_instants_are_written_in_utc_and_compared_as_instants",
    ),
    (
        "B7 an expiry is rounded up",
        CARDS,
        "    if up and floored < at:\n",
        "    if False:\n",
        f"{TESTS}::test_B7_an_expiry_is_rounded_up_and_other_times_down",
    ),
    (
        "B8 every row is checked again",
        "sources/notion/task_board.py",
        "            if card.status in OPEN and not card.in_trash:\n",
        "            if True:\n",
        f"{TESTS}::test_B8_filter_ignored_by_the_server_is_made_up_for",
    ),
]
