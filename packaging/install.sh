#!/bin/sh
# Installs aion, or takes it away again. It never asks for more rights than you have.
#
#   sh install.sh               install from the archive beside this script
#   sh install.sh --uninstall   remove what it installed; your teams and settings stay
#
# AION_PREFIX         where to install; default: ~/.local (the program goes to its bin)
# AION_DOWNLOAD_URL   where the archive and SHA256SUMS are: https://… or file:///…
#
# Exit codes: 0 done, 1 it could not be written, 2 called wrongly, 3 this system cannot run it,
# 4 the archive is missing or is not the one that SHA256SUMS names.

set -eu
umask 022

version='@VERSION@'
needed='@GLIBC@'
name="aion-$version-x86_64-unknown-linux-gnu"
archive="$name.tar.gz"

# All files of an installation, below the prefix, and their folders, deepest first.
files='bin/aion
share/man/man1/aion.1
share/bash-completion/completions/aion
share/zsh/site-functions/_aion
share/fish/vendor_completions.d/aion.fish
share/doc/aion/README.md
share/doc/aion/CHANGELOG.md
share/doc/aion/LICENSE-MIT
share/doc/aion/LICENSE-APACHE
share/doc/aion/THIRD-PARTY.txt'
folders='bin
share/man/man1
share/man
share/bash-completion/completions
share/bash-completion
share/zsh/site-functions
share/zsh
share/fish/vendor_completions.d
share/fish
share/doc/aion
share/doc
share'

work=
staged=
begun=
before=

say() { printf '%s\n' "$*"; }

# fail CODE WHAT [WHAT TO DO]
fail() {
    code=$1
    printf 'install.sh: %s\n' "$2" >&2
    [ $# -lt 3 ] || printf '  %s\n' "$3" >&2
    exit "$code"
}

clean() {
    # Cleaning is quick, and the programs that do it are not to be stopped half-way either.
    trap '' HUP INT PIPE TERM
    [ -z "$work" ] || rm -rf "$work"
    [ -z "$staged" ] || rm -rf "$staged"
    # Stopped before the program was in its place: of a first installation nothing is left.
    [ -z "$begun" ] || {
        [ -n "$before" ] || remove_files
        remove_folders
    }
}

remove_files() {
    for file in $files; do
        rm -f "$prefix/$file" || fail 1 "$prefix/$file cannot be removed."
    done
}

remove_folders() {
    for folder in $folders; do
        rmdir "$prefix/$folder" 2>/dev/null || :
    done
    [ "$prefix" = "${HOME:-}" ] || rmdir "$prefix" 2>/dev/null || :
}

find_prefix() {
    prefix=${AION_PREFIX:-}
    if [ -z "$prefix" ]; then
        [ -n "${HOME:-}" ] || fail 2 'HOME is not set.' 'Set AION_PREFIX to the folder to install below.'
        prefix=$HOME/.local
    fi
    prefix=${prefix%/}
    case $prefix in
        /*) ;;
        *) fail 2 "AION_PREFIX is '$prefix'; it must be a full path other than /." ;;
    esac
}

need_tools() {
    for tool in uname mktemp mkdir mv cp rm rmdir tar gzip sha256sum; do
        command -v "$tool" >/dev/null 2>&1 ||
            fail 1 "the program $tool is missing." 'Install it with the package manager of your system, then start again.'
    done
}

check_platform() {
    system=$(uname -s)
    machine=$(uname -m)
    if [ "$system" != Linux ] || [ "$machine" != x86_64 ]; then
        fail 3 "this archive is for Linux on x86_64; this system is $system on $machine." \
            'Build aion from its source there: cargo install --locked --path crates/cli'
    fi
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || :)
    if [ -z "$libc" ]; then
        libc=$(ldd --version 2>&1 || :)
        case $libc in
            *musl*)
                fail 3 "this system uses musl; aion needs glibc $needed or newer." \
                    'Use a system with glibc, or build aion from its source.' ;;
        esac
        libc=$(/lib64/ld-linux-x86-64.so.2 --version 2>/dev/null || :)
        libc=${libc%%
*}
        libc=${libc%.}
        if [ ! -e /lib64/ld-linux-x86-64.so.2 ]; then
            fail 3 "this system has no glibc (musl is another library); aion needs glibc $needed or newer." \
                'Use a system with glibc, or build aion from its source.'
        fi
    fi
    found=${libc##* }
    major=${found%%.*}
    minor=${found#*.}
    minor=${minor%%.*}
    case $major$minor in
        # Nothing here tells its version: the program itself is tried before it is put in place.
        '' | *[!0-9]*) return ;;
    esac
    if [ "$major" -lt "${needed%%.*}" ] ||
        { [ "$major" -eq "${needed%%.*}" ] && [ "$minor" -lt "${needed#*.}" ]; }; then
        fail 3 "this system has glibc $found; aion needs glibc $needed or newer." \
            'Use a newer release of your system, or build aion from its source.'
    fi
}

# Puts one file of the release into the work folder.
fetch() {
    case $base in
        https://*)
            command -v curl >/dev/null 2>&1 ||
                fail 1 'curl is missing, which downloads.' \
                    "Install it, or download $archive and SHA256SUMS from $base yourself and start this script beside them."
            curl --proto '=https' --fail --silent --show-error --location \
                --connect-timeout 30 --max-time 900 --output "$work/$1" "$base/$1" ||
                fail 4 "$base/$1 cannot be downloaded." ;;
        *)
            [ -f "$base/$1" ] ||
                fail 4 "$1 is not in $base." \
                    'Put the archive and SHA256SUMS beside this script, or set AION_DOWNLOAD_URL to the folder that has them.'
            cp "$base/$1" "$work/$1" || fail 1 "$base/$1 cannot be read." ;;
    esac
}

find_release() {
    base=${AION_DOWNLOAD_URL:-}
    case $base in
        *.tar.gz)
            [ "${base##*/}" = "$archive" ] ||
                fail 2 "AION_DOWNLOAD_URL names ${base##*/}; this script installs $archive."
            base=${base%/*} ;;
    esac
    base=${base%/}
    case $base in
        '')
            # Read from a pipe, the script has no place of its own.
            case $0 in
                */*.sh) base=${0%/*} ;;
                *.sh) base=. ;;
                *) fail 2 'it is not known where the archive is.' \
                    'Set AION_DOWNLOAD_URL, or start the script as a file: sh install.sh' ;;
            esac ;;
        https://*) ;;
        file:///*) base=${base#file://} ;;
        *) fail 2 "AION_DOWNLOAD_URL is '$base'; it must begin with https:// or file:///." ;;
    esac
}

# Nothing of the archive is unpacked before this has passed.
check_sum() {
    expected=
    while read -r sum file; do
        [ "$file" != "$archive" ] || expected=$sum
    done <"$work/SHA256SUMS"
    [ -n "$expected" ] || fail 4 "SHA256SUMS does not name $archive." 'Nothing was installed.'
    actual=$(sha256sum "$work/$archive")
    actual=${actual%% *}
    [ "$actual" = "$expected" ] ||
        fail 4 "$archive is damaged or was changed: its SHA-256 is $actual, SHA256SUMS says $expected." \
            'Nothing was installed. Download both files again.'
}

install_files() {
    bin=$prefix/bin
    [ ! -e "$bin/aion" ] || before=yes
    [ ! -d "$bin/aion" ] || fail 1 "$bin/aion is a folder." 'Move it away, or set AION_PREFIX to another place.'
    begun=yes
    mkdir -p "$bin" 2>/dev/null && staged=$(mktemp -d "$bin/.aion-XXXXXX" 2>/dev/null) ||
        fail 1 "$bin cannot be written." 'Set AION_PREFIX to a folder of your own.'
    tar -x -z -o -f "$work/$archive" -C "$staged" || fail 1 "$archive cannot be unpacked into $bin."
    told=$("$staged/$name/bin/aion" --version 2>&1) ||
        fail 3 "the program does not start on this system: $told" \
            "It needs glibc $needed or newer and libgcc_s.so.1 (Debian: libgcc-s1, Fedora: libgcc). What was there before is unchanged."
    for file in $files; do
        [ "$file" != bin/aion ] || continue
        mkdir -p "$prefix/${file%/*}" && mv -f "$staged/$name/$file" "$prefix/$file" ||
            fail 1 "$prefix/$file cannot be written."
    done
    # The last step, and a rename: there is always a whole program under this name.
    mv -f "$staged/$name/bin/aion" "$bin/aion" || fail 1 "$bin/aion cannot be written."
    begun=
}

tell_installed() {
    if [ -n "$before" ]; then
        say "$told is installed in place of the one before: $bin/aion"
        say '  A daemon that runs is still the one before. Once its turns are over: aion stop'
    else
        say "$told is installed: $bin/aion"
    fi
    say "  manual page, completions and licences: $prefix/share"
    first=$(command -v aion 2>/dev/null || :)
    case :${PATH:-}: in
        *":$bin:"*)
            if [ "$first" != "$bin/aion" ]; then
                say "  Your PATH finds another one first: ${first:-nothing}. Start this one as $bin/aion"
            fi ;;
        *)
            say "  $bin is not in your PATH. Add this line to ~/.profile, then sign in again:"
            # What is written into the profile is expanded there, not here.
            # shellcheck disable=SC2016
            printf '    export PATH="%s:$PATH"\n' "$bin" ;;
    esac
    say '  To see it work, without key or network: aion demo'
    say '  To remove it: sh install.sh --uninstall'
}

uninstall() {
    there=
    for file in $files; do
        [ ! -e "$prefix/$file" ] || there=yes
    done
    if [ -z "$there" ]; then
        say "aion is not installed below $prefix: nothing to remove."
        return
    fi
    remove_files
    # What an installation left that was killed.
    rm -rf "$prefix/bin"/.aion-??????
    remove_folders
    say "aion is removed from $prefix."
    say '  Your teams and settings stay where they are, and a daemon that runs goes on until it is idle.'
}

main() {
    action=install
    case ${1:-} in
        '') ;;
        --uninstall) action=uninstall ;;
        -h | --help)
            say 'sh install.sh [--uninstall]'
            say "Installs aion $version below AION_PREFIX (default: ~/.local)."
            say 'AION_DOWNLOAD_URL says where the archive and SHA256SUMS are; default: beside this script.'
            return ;;
        *) fail 2 "'$1' is not known." 'Choices: --uninstall, --help, or nothing.' ;;
    esac
    [ $# -le 1 ] || fail 2 "'$2' is not known: there is one argument at most."
    find_prefix
    if [ "$action" = uninstall ]; then
        uninstall
        return
    fi
    need_tools
    check_platform
    find_release
    trap clean EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 141' PIPE
    trap 'exit 143' TERM
    work=$(mktemp -d) || fail 1 'no temporary folder can be made.' 'Set TMPDIR to a folder of your own.'
    fetch SHA256SUMS
    fetch "$archive"
    check_sum
    install_files
    tell_installed
}

# Read whole before anything runs, so that half a download does nothing.
main "$@"
