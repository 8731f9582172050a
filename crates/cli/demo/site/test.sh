#!/bin/sh
# Checks the site. With an argument: both pages have to carry that edition code.
set -u
cd "$(dirname "$0")" || exit 2
passed=0

fail() {
    echo "FAIL: $1"
    exit 1
}

# need FILE TEXT WHY: the text stands in the file.
need() {
    grep -q -F -e "$2" "$1" 2>/dev/null || fail "$1: $3"
    passed=$((passed + 1))
}

for page in index.html programme.html; do
    [ -s "$page" ] || fail "$page is missing"
    need "$page" '<!doctype html>' 'no doctype'
    need "$page" '<html lang="en">' 'no language'
    need "$page" 'name="viewport"' 'no viewport'
    need "$page" '<title>' 'no title'
    need "$page" 'href="style.css"' 'no stylesheet'
    need "$page" '</footer>' 'no footer'
    need "$page" '</html>' 'not written to its end'
    [ "$(grep -c '<h1' "$page")" -eq 1 ] || fail "$page: it has to have one main heading"
    if [ $# -gt 0 ]; then
        need "$page" "Edition $1" "the edition code $1 is missing"
    fi
    # Every link inside the site leads somewhere.
    for target in $(sed -n 's/.*href="\([^":#]*\)".*/\1/p' "$page"); do
        [ -e "$target" ] || fail "$page: the link to $target leads nowhere"
        passed=$((passed + 1))
    done
done

need style.css '--accent: #' 'no accent colour'
class=$(sed -n 's/.*class="\(lead-[0-9]*\)".*/\1/p' index.html)
[ -n "$class" ] || fail 'index.html: the first line has no class of its own'
need style.css ".$class {" "no style for $class"

motto=$(sed -n 's/^Motto: //p' content.md)
[ -n "$motto" ] || fail 'content.md: no motto'
need index.html "$motto" 'the motto is missing'

# Every hour of content.md is in the programme.
hours=$(sed -n 's/^\([0-9][0-9]:[0-9][0-9]\) .*/\1/p' content.md)
[ -n "$hours" ] || fail 'content.md: no hours'
for hour in $hours; do
    what=$(sed -n "s/^$hour //p" content.md)
    need programme.html "$hour" "$hour is missing"
    need programme.html "$what" "\"$what\" is missing"
done

echo "OK: $passed checks passed"
