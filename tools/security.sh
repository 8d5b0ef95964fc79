#!/usr/bin/env bash
# Checks the promises of SECURITY.md about the library and the system:
#
# - a process with another user's rights (setuid, setgid) ignores its environment;
# - no file is created, no socket opened and no program run (tested without a driver, since NVIDIA's
#   makes files of its own);
# - the driver is opened by its soname, and so only from the system's library folders; the only other library that
#   is opened is the profiler's that NVTX_INJECTION64_PATH names.
#
#     tools/security.sh        after `make build`; needs strace, a C compiler, and root
set -euo pipefail
cd "$(dirname "$0")/.."
examples=(vector_add pinned_dot device_loop double_buffer mixed_pointers structured errors
    all_functions threads_and_fork)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cp -P target/release/libgpuvec.so* "$work/"

compile() { # SOURCE PROGRAM
    "${CC:-cc}" -std=c99 -Wall -Wextra -Wpedantic -Werror -Iinclude -pthread "$1" -L"$work" -lgpuvec \
        -Wl,-rpath,"$work" -lm -o "$work/$2"
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

says() { # EXPECTED VARIABLE=VALUE...
    local expected=$1 said
    shift
    said=$(env "$@" "$work/privileged")
    [ "$said" = "$expected" ] || fail "with $*: '$said', not '$expected'"
}

environment_is_ignored_with_another_users_rights() {
    local profiler
    compile tools/privileged.c privileged
    says "privileged 0 placement 2 status 0" GPUVEC_PLACEMENT=cpu
    says "privileged 0 placement 0 status 203" GPUVEC_NUM_THREADS=none
    profiler=NVTX_INJECTION64_PATH=$work/profiler.so
    "${CC:-cc}" -shared -fPIC python_tests/interface/nvtx_tool.c -o "$work/profiler.so"
    says $'gpuvec: add_f32\nend 0\nprivileged 0 placement 0 status 0' "$profiler"
    [ "$(id -u)" = 0 ] || fail "only root can make a program run as another user"
    chown nobody "$work/privileged"
    chmod 4755 "$work/privileged"
    says "privileged 1 placement 0 status 0" GPUVEC_PLACEMENT=cpu
    says "privileged 1 placement 0 status 0" GPUVEC_NUM_THREADS=none
    says "privileged 1 placement 0 status 0" "$profiler"
    chown root:nogroup "$work/privileged"
    chmod 2755 "$work/privileged"
    says "privileged 1 placement 0 status 0" GPUVEC_PLACEMENT=cpu
    says "privileged 1 placement 0 status 0" "$profiler"
}

# Runs every example in a folder with a false driver in it, and keeps the system calls in trace.
trace_examples() {
    echo "no driver" >"$work/libcuda.so.1"
    for example in "${examples[@]}"; do
        compile "c_examples/$example.c" "$example"
        (cd "$work" && strace -f -qq -o "$example.trace" \
            -e trace=%file,%network,memfd_create "./$example" >/dev/null)
    done
    cat "$work"/*.trace >"$work/trace"
}

absent() { # WHAT PATTERN
    if grep -E "$2" "$work/trace"; then fail "$1"; fi
}

called() { # NAME...: a pattern for the start of these system calls
    local names=$*
    echo "^[0-9]+ +(${names// /|})\("
}

nothing_is_made() {
    # The first line of each trace starts the example itself.
    [ "$(grep -cE "$(called execve execveat)" "$work/trace")" = "${#examples[@]}" ] ||
        fail "a program was run"
    absent "a file was opened to write" 'open.*O_(CREAT|WRONLY|RDWR|TMPFILE)'
    absent "the file system was changed" "$(called creat mkdir mkdirat mknod mknodat memfd_create \
        rename renameat renameat2 unlink unlinkat rmdir link linkat symlink symlinkat truncate \
        chmod fchmodat chown lchown fchownat mount umount2)"
    absent "a socket was used" "$(called socket socketpair connect bind)"
}

the_driver_is_opened_by_soname() {
    local opened others
    opened=$(grep -rhoP --exclude=nvtx.rs 'dlopen\((\w+::)?\K[^)]*' src | sort -u)
    [ "$opened" = 'DRIVER.as_ptr(' ] || fail "src opens: $opened"
    grep -rq 'const DRIVER: &CStr = c"libcuda.so.1";' src || fail "DRIVER is another library"
    grep -q '/libcuda\.so\.1"' "$work/trace" || fail "no example looked for the driver"
    others=$(grep -E 'libcuda|nvidia' "$work/trace" | grep -v '/libcuda\.so\.1"' || true)
    [ -z "$others" ] || fail "looked for under another name: $others"
    absent "the current folder's was taken" "\"$work/libcuda"
}

environment_is_ignored_with_another_users_rights
echo "a privileged process does not listen to its environment: setuid and setgid tried"
trace_examples
nothing_is_made
echo "no file, no socket, no program: $(wc -l <"$work/trace") system calls of the examples seen"
the_driver_is_opened_by_soname
echo "the driver is opened by its soname"
