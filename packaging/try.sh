#!/bin/sh
# Tries an installation as a person would, with nothing but HOME, PATH and the programs that
# install.sh names; changes nothing outside HOME and TMPDIR.
#
#   sh try.sh RELEASE VERSION [daemon]
#
# RELEASE is a folder made by `cargo xtask dist`. With `daemon`, the installed program also has to
# make a team work.

set -eu

release=$1
version=$2
install=$release/install.sh
archive=aion-$version-x86_64-unknown-linux-gnu.tar.gz
tools=$PATH
program=$HOME/.local/bin/aion
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
# Whatever the scripts leave in a temporary folder is seen.
TMPDIR=$room/tmp
export TMPDIR
mkdir "$TMPDIR" "$room/fake"

wrong() { printf 'WRONG: %s\n' "$*" >&2; exit 1; }
right() { printf 'ok: %s\n' "$*"; }

# expect CODE TEXT COMMAND…: how a command has to end, and what it has to say.
expect() {
    code=$1 text=$2
    shift 2
    got=0
    said=$("$@" 2>&1) || got=$?
    [ "$got" = "$code" ] || wrong "'$*' ended with $got, not $code: $said"
    case $said in
        *"$text"*) ;;
        *) wrong "'$*' did not say '$text': $said" ;;
    esac
}
nothing_in() {
    left=$(ls -A "$1")
    [ -z "$left" ] || wrong "$1 holds: $left"
}
nothing_left() {
    nothing_in "$HOME"
    nothing_in "$TMPDIR"
}
# fake NAME TEXT: a program of the system that says something else.
fake() {
    printf '#!/bin/sh\n%s\n' "$2" >"$room/fake/$1"
    chmod 755 "$room/fake/$1"
}

nothing_left

expect 0 "aion $version is installed: $program" sh "$install"
expect 0 "aion $version" "$program" --version
[ "$(ls -A "$HOME/.local/bin")" = aion ] || wrong "more than the program is in its folder"
for file in man/man1/aion.1 bash-completion/completions/aion zsh/site-functions/_aion \
    fish/vendor_completions.d/aion.fish doc/aion/LICENSE-MIT doc/aion/LICENSE-APACHE \
    doc/aion/THIRD-PARTY.txt; do
    [ -s "$HOME/.local/share/$file" ] || wrong "$file is not there"
done
nothing_in "$TMPDIR"
right 'it is installed, and starts'

if [ "${3:-}" = daemon ]; then
    AION_HOME=$room/teams
    export AION_HOME
    expect 0 'aion serves at' timeout 60 "$program" serve --detach --port 0
    expect 0 "$version" timeout 60 "$program" status
    mkdir "$room/tree"
    cd "$room/tree"
    cat >"$room/scenario.toml" <<'SCENARIO'
[[agent.team-lead.rule]]
when = [{ given = "." }]
say = "The lead is at work."
SCENARIO
    expect 0 'team-lead idle' timeout 60 "$program" run --yes --script "$room/scenario.toml" look
    expect 0 'The lead is at work.' timeout 60 "$program" log
    expect 0 ' 0 error(s)' timeout 60 "$program" doctor
    expect 0 '' timeout 60 "$program" stop
    cd /
    unset AION_HOME
    right 'its daemon starts, a team works in it, and it stops'
fi

expect 0 "is not in your PATH" sh "$install"
expect 0 "in place of the one before" sh "$install"
expect 0 "aion $version" "$program" --version
[ "$(ls -A "$HOME/.local/bin")" = aion ] || wrong "more than the program is in its folder"
right 'it is installed over the one before'

mkdir "$room/damaged"
cp "$release/$archive" "$release/SHA256SUMS" "$release/install.sh" "$room/damaged"
printf 'x' >>"$room/damaged/$archive"
expect 4 'is damaged or was changed' sh "$room/damaged/install.sh"
expect 0 "aion $version" "$program" --version
nothing_in "$TMPDIR"
right 'a wrong checksum leaves the one before as it was'

mkdir "$HOME/.local/bin/.aion-killed"
expect 0 'aion is removed' sh "$install" --uninstall
nothing_left
expect 0 'nothing to remove' sh "$install" --uninstall
right 'it is removed, and nothing is left'

expect 4 'is damaged or was changed' sh "$room/damaged/install.sh"
nothing_left
: >"$room/damaged/SHA256SUMS"
expect 4 'does not name' sh "$room/damaged/install.sh"
rm "$room/damaged/SHA256SUMS"
expect 4 'SHA256SUMS is not in' sh "$room/damaged/install.sh"
nothing_left
right 'a wrong checksum, and none, are refused and leave nothing'

PATH=$HOME/.local/bin:$tools
expect 0 "aion $version is installed" sh "$install"
case $said in *'not in your PATH'*) wrong "the PATH is right: $said" ;; esac
expect 0 "aion $version" aion --version
PATH=$tools
expect 0 'aion is removed' sh "$install" --uninstall
right 'a PATH that is right is not complained about'

mkdir -p "$HOME/own/bin"
: >"$HOME/own/bin/other"
AION_PREFIX=$HOME/own AION_DOWNLOAD_URL=file://$release
export AION_PREFIX AION_DOWNLOAD_URL
piped() { sh <"$install"; }
expect 0 "$HOME/own/bin/aion" piped
expect 0 'aion is removed' sh "$install" --uninstall
[ -e "$HOME/own/bin/other" ] || wrong "a file of somebody else is gone"
rm -r "$HOME/own"
AION_PREFIX=own
expect 2 'must be a full path' sh "$install"
AION_PREFIX=/dev/null
expect 1 'cannot be written' sh "$install"
unset AION_PREFIX
AION_DOWNLOAD_URL=http://127.0.0.1
expect 2 'must begin with https://' sh "$install"
unset AION_DOWNLOAD_URL
expect 2 'where the archive is' piped
expect 2 "'--remove' is not known" sh "$install" --remove
nothing_left
right 'another place, another source and a pipe work; wrong ones are refused'

PATH=$room/fake:$tools
fake uname 'case $1 in -s) echo Darwin ;; *) echo arm64 ;; esac'
expect 3 'this system is Darwin on arm64' sh "$install"
fake uname 'case $1 in -s) echo Linux ;; *) echo aarch64 ;; esac'
expect 3 'this system is Linux on aarch64' sh "$install"
rm "$room/fake/uname"
fake getconf 'echo glibc 2.17'
expect 3 'this system has glibc 2.17' sh "$install"
fake getconf 'exit 1'
fake ldd 'echo "musl libc (x86_64)" >&2; exit 1'
expect 3 'this system uses musl' sh "$install"
fake ldd 'exit 1'
expect 0 "aion $version is installed" sh "$install"
PATH=$tools
expect 0 'aion is removed' sh "$install" --uninstall
nothing_left
right 'a system that cannot run it is refused'
