"""Editing files while Hermes runs."""

from __future__ import annotations

import os

import pytest

from hermes.config import ConfigWatcher


@pytest.fixture
def watcher(folder, poll_text):
    folder.poll(poll_text)
    return ConfigWatcher(folder.path, folder.models, folder.load(), environ=folder.environ)


def test_nothing_changed_is_nothing(watcher, folder):
    assert watcher.tick() is None
    os.utime(folder.path / "hermes.yaml", ns=(1, 1))
    assert watcher.tick() is None


def test_polls_that_come_change_and_go(watcher, folder, poll_text):
    folder.poll(poll_text.replace("tasks", "second"), "second")
    folder.poll(poll_text + "priority: 2\n")
    reload = watcher.tick()
    assert (reload.added, reload.edited, reload.removed, reload.problems) == (("second",), ("tasks",), (), ())
    assert not reload.restart_needed
    assert watcher.current.polls["tasks"].priority == 2
    (folder.path / "polls/tasks.yaml").unlink()
    assert watcher.tick() is None
    reload = watcher.tick()
    assert reload.removed == ("tasks",)
    assert set(watcher.current.polls) == {"second"}


def test_a_file_that_is_away_for_a_moment_is_not_removed(watcher, folder, poll_text):
    path = folder.path / "polls/tasks.yaml"
    path.rename(folder.path / "elsewhere")
    assert watcher.tick() is None
    (folder.path / "elsewhere").rename(path)
    assert watcher.tick() is None
    assert set(watcher.current.polls) == {"tasks"}


def test_a_poll_of_a_new_board_waits_for_the_restart(watcher, folder, poll_text):
    text = (folder.path / "hermes.yaml").read_text()
    folder.write("hermes.yaml", text + "  other: {connection: main, board: B2}\n")
    folder.poll(poll_text.replace("poll: tasks", "poll: second").replace("board: team", "board: other"), "second")
    folder.poll(poll_text.replace("board: team", "board: other"))
    reload = watcher.tick()
    assert reload.waiting == ("second", "tasks")
    assert reload.restart_needed
    assert (reload.added, reload.edited) == ((), ())
    assert set(watcher.current.polls) == {"tasks"}
    assert watcher.current.polls["tasks"].board == "team"
    assert str(reload) == "waiting for a restart: second, tasks; hermes.yaml changed"


def test_a_broken_poll_keeps_its_last_good_version_and_the_others_go_on(watcher, folder, poll_text):
    folder.poll(poll_text + "prioritty: 2\n")
    folder.poll(poll_text.replace("tasks", "second"), "second")
    reload = watcher.tick()
    assert reload.kept == ("tasks",)
    assert reload.added == ("second",)
    assert reload.edited == ()
    assert "unknown key `prioritty`. Did you mean `priority`?" in str(reload.problems[0])
    assert str(reload) == "added second; broken, last good version kept: tasks"
    assert watcher.current.polls["tasks"].priority == 5
    assert watcher.problems == reload.problems
    assert watcher.tick() is None, "said once, not at every tick"
    folder.poll(poll_text + "priority: 2\n")
    reload = watcher.tick()
    assert reload.edited == ("tasks",)
    assert watcher.problems == ()


def test_a_broken_new_poll_is_not_added(watcher, folder):
    folder.poll("poll: second\n", "second")
    reload = watcher.tick()
    assert (reload.added, reload.kept) == ((), ())
    assert reload.problems
    assert set(watcher.current.polls) == {"tasks"}


def test_a_broken_hermes_yaml_changes_nothing_at_all(watcher, folder, poll_text):
    before = watcher.current
    folder.write("hermes.yaml", "boards: [")
    folder.poll(poll_text + "priority: 2\n")
    reload = watcher.tick()
    assert reload.configuration is before
    assert reload.kept == ("tasks",)
    assert "is not valid YAML" in str(reload.problems[0])


def test_a_removed_hermes_yaml_changes_nothing_either(watcher, folder):
    (folder.path / "hermes.yaml").unlink()
    assert watcher.tick() is None
    assert watcher.tick().kept == ("tasks",)
    assert set(watcher.current.polls) == {"tasks"}


def test_a_board_that_polls_still_use_cannot_be_taken_away_under_them(watcher, folder):
    folder.write("hermes.yaml", "connections: {}\n")
    reload = watcher.tick()
    assert reload.kept == ("tasks",)
    assert "no such board `team`" in str(reload.problems[0])
    assert "team" in watcher.current.boards


def test_an_edited_hermes_yaml_says_that_a_restart_is_needed(watcher, folder):
    text = (folder.path / "hermes.yaml").read_text()
    folder.write("hermes.yaml", text + "workers: {slots: 9}\n")
    reload = watcher.tick()
    assert reload.restart_needed
    assert str(reload) == "hermes.yaml changed"
    folder.write("hermes.yaml", text)
    assert not watcher.tick().restart_needed, "it is again what this process was started with"


def test_a_comment_changes_no_version(watcher, folder, poll_text):
    folder.poll("# a comment\n" + poll_text.replace("poll: tasks", "poll: 'tasks'"))
    reload = watcher.tick()
    assert (reload.added, reload.edited, reload.removed) == ((), (), ())
    assert str(reload) == "nothing changed"
