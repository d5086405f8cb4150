#!/usr/bin/env bash
# Records the outputs that `overspill demo` works on: real tools, run on this project's own tree.
#
#     crates/overspill-cli/demo/record.sh [FOLDER]
#
# It clones HEAD into FOLDER (by default a temporary one, removed afterwards; one that is given is
# kept, so that a second recording builds less), runs tools there, plants bugs and runs some more,
# and writes what they print to *.out beside this script. Needs bash, git, cargo, and GNU grep and
# sed; takes a few minutes.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -gt 0 ]; then
  tree=$1
else
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  tree=$scratch/overspill
fi
[ -d "$tree/.git" ] || git clone -q "$(git -C "$here" rev-parse --show-toplevel)" "$tree"
cd "$tree"
git fetch -q origin HEAD && git reset -q --hard FETCH_HEAD && git clean -fdq

# A recording must not depend on who made it, where, or on chance.
unset CARGO_TARGET_DIR RUSTFLAGS
export CARGO_TERM_COLOR=never RUST_BACKTRACE=1 INSTA_UPDATE=no PROPTEST_RNG_SEED=1 LC_ALL=C.UTF-8
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
cargo_home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$(rustc --print sysroot)

# record NAME STATUS COMMAND…: writes what COMMAND prints to NAME.out, paths of this machine
# replaced, and insists on its exit status, which demo.rs repeats.
record() {
  local name=$1 expected=$2 status=0
  shift 2
  "$@" >"$here/$name.out" 2>&1 </dev/null || status=$?
  if [ "$status" -ne "$expected" ]; then
    echo "$name: exit status $status instead of $expected" >&2
    tail -n 20 "$here/$name.out" >&2
    exit 1
  fi
  LC_ALL=C sed -i -e "s#$tree#/src/overspill#g" \
    -e "s#$cargo_home/registry/src/[^/]*/#/cargo/registry/#g" \
    -e "s#$sysroot#/rust#g" "$here/$name.out"
  printf '%-8s %8d bytes\n' "$name" "$(wc -c <"$here/$name.out")"
}

# Plants a bug by a sed script, and sees to it that it took.
plant() {
  sed -i "$2" "$1"
  ! git diff --quiet -- "$1" || { echo "the bug planted in $1 no longer takes" >&2; exit 1; }
}

# Everything is built and passes before, so that the recordings hold what a second build prints,
# and no failure but that of the planted bug.
libraries=(-p overspill -p overspill-store -p overspill-replay)
cargo fetch --locked
cargo test --offline "${libraries[@]}"
cargo check --offline -p overspill --all-targets

record file 0 cat crates/overspill/src/lines.rs
record search 0 grep -rn --include='*.rs' 'fn ' crates/overspill crates/overspill-store
record json 0 cargo metadata --no-deps --offline --format-version 1
rustc --edition 2024 --crate-type lib --emit obj -g --remap-path-prefix "$tree=/src/overspill" \
  -A dead_code -o measure.o crates/overspill/src/measure.rs
record binary 0 cat measure.o
rm measure.o

# Estimated tokens are rounded up, not down.
plant crates/overspill/src/measure.rs 's#^    chars / CHARS_PER_TOKEN#    chars.div_ceil(CHARS_PER_TOKEN)#'
record status 0 git status --short
record test 101 cargo test --offline "${libraries[@]}" --no-fail-fast
git checkout -q .

# A type is renamed where it is declared and nowhere else, and an import is left over.
plant crates/overspill/src/store/port.rs 's/enum StoreError/enum StorageError/'
plant crates/overspill/src/measure.rs 's/^use std::sync::Arc;/use std::collections::HashMap;\n&/'
record build 101 cargo check --offline -p overspill --all-targets --color always
