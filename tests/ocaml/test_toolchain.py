"""The toolchain finder, on the machine's own OCaml and on tiny installations made up of shell scripts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ocaml.errors import OCamlError
from ocaml.toolchain import Toolchain, ToolchainMissing, Version, Which, environment, find, install_command


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def installation(folder: Path, version: str = "5.2.1", *, log: Path | None = None) -> Path:
    """Make a folder with an ocaml and an ocamlc that say their version, and note each start in ``log``."""
    library = folder.parent / "lib"
    library.mkdir(parents=True, exist_ok=True)
    note = f'echo "ocamlc $*" >> {log}; ' if log else ""
    script(folder / "ocaml", "exit 1")
    script(folder / "ocamldep", "exit 1")
    script(
        folder / "ocamlc",
        f'{note}[ "$1" = -config ] && printf "version: {version}\\nstandard_library: {library}\\n"',
    )
    return folder


def surroundings(*folders: Path, home: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.pathsep.join(map(str, folders)), "HOME": str(home), **more}


def found(*folders: Path, home: Path, others: tuple[Path, ...] = (), **more: str) -> Toolchain:
    return find(surroundings(*folders, home=home, **more), "linux", folders=others)


def complaint(*folders: Path, home: Path, others: tuple[Path, ...] = (), **more: str) -> str:
    with pytest.raises(ToolchainMissing) as raised:
        found(*folders, home=home, others=others, **more)
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_this_machines_ocaml_is_found() -> None:
    toolchain = find()
    told = subprocess.run([toolchain.ocamlc, "-version"], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(toolchain.version)
    assert (toolchain.standard_library / "stdlib.cmi").is_file()


def test_path_is_looked_at_first_and_one_process_is_enough(tmp_path: Path) -> None:
    log = tmp_path / "log"
    folder = installation(tmp_path / "bin", "4.14.1", log=log)
    script(folder / "opam", f"echo opam >> {log}")
    toolchain = found(folder, home=tmp_path)
    assert toolchain == Toolchain(
        folder / "ocaml", folder / "ocamlc", folder / "ocamldep", Version(4, 14, 1), tmp_path / "lib"
    )
    assert log.read_text() == "ocamlc -config\n"


def test_a_second_look_starts_no_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    folder = installation(tmp_path / "bin", log=log)
    assert found(folder, home=tmp_path) is found(folder, home=tmp_path)
    assert log.read_text().count("\n") == 1


def test_a_failure_is_not_remembered(tmp_path: Path) -> None:
    complaint(tmp_path / "bin", home=tmp_path)
    installation(tmp_path / "bin")
    assert found(tmp_path / "bin", home=tmp_path).version == Version(5, 2, 1)


def test_opams_switch_is_asked_for_with_two_processes_in_all(tmp_path: Path) -> None:
    log = tmp_path / "log"
    switch = installation(tmp_path / "switch" / "bin", log=log)
    opam = script(tmp_path / "bin" / "opam", f'echo "opam $*" >> {log}; echo {switch}').parent
    assert found(opam, home=tmp_path).ocamlc == switch / "ocamlc"
    assert log.read_text() == "opam var bin\nocamlc -config\n"


def test_opams_default_switch_is_found_without_opam(tmp_path: Path) -> None:
    folder = installation(tmp_path / ".opam" / "default" / "bin")
    assert found(tmp_path / "empty", home=tmp_path).ocaml == folder / "ocaml"


def test_an_opam_that_fails_is_passed_over(tmp_path: Path) -> None:
    opam = script(tmp_path / "bin" / "opam", "exit 50").parent
    folder = installation(tmp_path / ".opam" / "default" / "bin")
    assert found(opam, home=tmp_path).ocaml == folder / "ocaml"


def test_homebrews_folders_come_last(tmp_path: Path) -> None:
    brew = installation(tmp_path / "homebrew" / "bin", "5.4.1")
    assert found(tmp_path, home=tmp_path, others=(tmp_path / "none", brew)).version == Version(5, 4, 1)


def test_an_old_ocaml_on_path_gives_way_to_a_newer_one_elsewhere(tmp_path: Path) -> None:
    old, new = installation(tmp_path / "old", "4.08.1"), installation(tmp_path / "new", "5.3.0")
    assert found(old, home=tmp_path, others=(new,)).version == Version(5, 3)


@pytest.mark.parametrize("named", ["bin", "bin/ocaml", "bin/ocamlc", "."])
def test_the_variable_names_a_folder_a_program_or_the_root(tmp_path: Path, named: str) -> None:
    folder = installation(tmp_path / "mine" / "bin", "5.1.0")
    other = installation(tmp_path / "other", "5.3.0")
    toolchain = found(other, home=tmp_path, OCAMLER_OCAML=str(tmp_path / "mine" / named))
    assert toolchain.ocamlc == folder / "ocamlc"


def test_the_variable_may_name_a_link_to_the_program(tmp_path: Path) -> None:
    folder = installation(tmp_path / "mine")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "ocaml-mine").symlink_to(folder / "ocaml")
    toolchain = found(tmp_path, home=tmp_path, OCAMLER_OCAML=str(tmp_path / "links" / "ocaml-mine"))
    assert toolchain.ocamlc == folder / "ocamlc"


def test_what_the_variable_names_is_never_replaced_by_another(tmp_path: Path) -> None:
    good = installation(tmp_path / "good")
    message = complaint(good, home=tmp_path, OCAMLER_OCAML=str(tmp_path / "nowhere"))
    assert message == (
        f"OCAMLER_OCAML names {tmp_path}/nowhere, where no ocaml with an ocamlc beside it is; "
        "name the folder that holds both, or do without: unset OCAMLER_OCAML"
    )
    old = installation(tmp_path / "old", "4.02.3")
    assert "OCaml 4.02.3" in complaint(good, home=tmp_path, OCAMLER_OCAML=str(old))


@pytest.mark.parametrize(
    "version", ["4.13.0", "4.13.1", "4.14.2", "5.0.0", "5.3.0~beta1", "5.4.1+flambda", "5.99.0"]
)
def test_versions_from_4_13_up_to_6_serve(tmp_path: Path, version: str) -> None:
    assert str(found(installation(tmp_path / "bin", version), home=tmp_path).version) == version


@pytest.mark.parametrize("version", ["3.12.1", "4.02.3", "4.12.1", "6.0.0", "7.1"])
def test_other_versions_are_refused_by_name(tmp_path: Path, version: str) -> None:
    message = complaint(installation(tmp_path / "bin", version), home=tmp_path)
    assert f"OCaml {version}" in message
    assert "from 4.13 up to, not including, 6" in message


def test_too_old_ends_in_the_command_of_whichever_helps(tmp_path: Path) -> None:
    old = installation(tmp_path / "bin", "4.08.1")
    manager = tmp_path / "managers"
    script(manager / "apt-get", "exit 1")
    script(manager / "sudo", "exit 1")
    assert "opam.ocaml.org/install.sh" in complaint(old, manager, home=tmp_path)
    script(manager / "opam", "exit 1")
    assert complaint(old, manager, home=tmp_path).endswith("with: opam switch create 5.3.0 --yes")


BROKEN = {
    "exits at once": ("exit 3", "does not run (exit code 3)"),
    "prints junk": ("echo 'no such file'; printf '\\377\\376'", "does not say its version"),
    "prints nothing": ("exit 0", "does not say its version"),
    "a version that is none": (
        "echo 'version: five'; echo 'standard_library: /'",
        "does not say its version",
    ),
    "a library that is gone": ("echo 'version: 5.3.0'; echo 'standard_library: /gone'", "is not at /gone"),
}


@pytest.mark.parametrize(("body", "told"), BROKEN.values(), ids=BROKEN)
def test_a_broken_compiler_is_named(tmp_path: Path, body: str, told: str) -> None:
    folder = script(tmp_path / "bin" / "ocamlc", body).parent
    script(folder / "ocaml", "exit 1")
    message = complaint(folder, home=tmp_path)
    assert f"in {folder}" in message
    assert told in message


def test_a_program_for_another_machine_is_named(tmp_path: Path) -> None:
    folder = installation(tmp_path / "bin")
    (folder / "ocamlc").write_bytes(b"\x7fELF not really")
    assert f"the ocamlc in {folder} does not run" in complaint(folder, home=tmp_path)


def test_files_that_are_not_executable_are_no_programs(tmp_path: Path) -> None:
    folder = installation(tmp_path / "bin")
    (folder / "ocaml").chmod(0o644)
    assert complaint(folder, home=tmp_path).startswith("OCaml is not on this machine; install it with: ")


def test_ocamldep_may_be_missing(tmp_path: Path) -> None:
    folder = installation(tmp_path / "bin")
    (folder / "ocamldep").unlink()
    assert found(folder, home=tmp_path).ocamldep is None


def test_what_the_user_set_for_the_compiler_does_not_disturb_the_search(tmp_path: Path) -> None:
    folder = installation(tmp_path / "bin")
    body = (
        (folder / "ocamlc")
        .read_text()
        .replace("#!/bin/sh\n", '#!/bin/sh\n[ -z "$OCAMLPARAM$OCAMLRUNPARAM" ] || exit 9\n')
    )
    (folder / "ocamlc").write_text(body)
    assert found(folder, home=tmp_path, OCAMLPARAM="_,w=+a", OCAMLRUNPARAM="v=0x400")


def test_what_is_missing_is_an_error_of_this_room() -> None:
    assert issubclass(ToolchainMissing, OCamlError)


def test_versions_are_ordered() -> None:
    texts = ["4.02.3", "4.13.0", "4.13.1", "4.14.0", "5.0.0", "5.2.0", "5.10.0"]
    versions = [Version.parse(text) for text in texts]
    assert None not in versions
    assert versions == sorted(versions, key=lambda version: version or Version(0, 0))
    assert [str(version) for version in versions] == texts


@pytest.mark.parametrize("text", ["", "five", "4", "v4.13", "4.x", "4.13.1 or so"])
def test_what_is_no_version_is_none(text: str) -> None:
    assert Version.parse(text) is None


def managers(*names: str) -> Which:
    return lambda name: f"/usr/bin/{name}" if name in names else None


INSTALLS = [
    ("linux", ("apt-get",), True, "apt-get update && apt-get install -y ocaml-nox"),
    ("linux", ("apt-get", "sudo"), False, "sudo apt-get update && sudo apt-get install -y ocaml-nox"),
    ("linux", ("apt-get", "sudo", "brew"), False, "sudo apt-get update && sudo apt-get install -y ocaml-nox"),
    ("linux", ("apt-get", "opam"), False, "opam init --bare --no-setup --yes && "
     "opam switch create default ocaml-base-compiler.5.3.0 --yes"),
    ("darwin", ("brew",), False, "brew install ocaml"),
    ("darwin", ("brew", "opam"), False, "brew install ocaml"),
    ("darwin", ("opam",), False, "opam init --bare --no-setup --yes && "
     "opam switch create default ocaml-base-compiler.5.3.0 --yes"),
]  # fmt: skip


@pytest.mark.parametrize(("platform", "there", "root", "line"), INSTALLS)
def test_the_package_manager_that_is_there_installs(
    platform: str, there: tuple[str, ...], root: bool, line: str
) -> None:
    command = install_command(platform, managers(*there), is_root=root)
    assert command is not None
    assert command.text == line
    assert command.why


@pytest.mark.parametrize("there", [(), ("apt-get",)])
def test_without_a_package_manager_that_may_be_used_there_is_no_command(there: tuple[str, ...]) -> None:
    assert install_command("linux", managers(*there), is_root=False) is None


def test_several_commands_run_as_one_too() -> None:
    command = install_command("linux", managers("apt-get"), is_root=True)
    assert command is not None
    assert command.argv == ("sh", "-c", "apt-get update && apt-get install -y ocaml-nox")


def toolchain_of(version: Version) -> Toolchain:
    return Toolchain(Path("/opt/o/ocaml"), Path("/opt/o/ocamlc"), None, version, Path("/opt/o/lib"))


def test_children_get_a_small_plain_environment() -> None:
    mine = {
        "PATH": "/home/me/bin",
        "OCAMLPARAM": "_,w=+a",
        "OCAMLRUNPARAM": "b",
        "LANG": "de_DE.UTF-8",
        "SECRET": "x",
    }
    assert environment(toolchain_of(Version(4, 13, 1)), mine) == {
        "PATH": "/opt/o:/usr/bin:/bin",
        "LC_ALL": "C",
        "TERM": "dumb",
    }


def test_ocaml_5_gets_a_small_stack() -> None:
    assert environment(toolchain_of(Version(5, 0)), {})["OCAMLRUNPARAM"] == "l=1M"


def test_where_the_libraries_are_is_passed_on() -> None:
    mine = {"OCAMLLIB": "/l", "CAML_LD_LIBRARY_PATH": "/s", "TMPDIR": "/t"}
    assert environment(toolchain_of(Version(5, 0)), mine).items() >= mine.items()


def test_the_finder_needs_nothing_but_the_standard_library() -> None:
    program = "import sys, ocaml.toolchain; print(*{name.partition('.')[0] for name in sys.modules})"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"click", "numpy", "wcwidth", "asyncio"} & set(told.stdout.split())
