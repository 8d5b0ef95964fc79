# Debian's packages, unpacked into a folder and not installed. Scripts that source this file set `tools`, the folder, and
# `processors`: those whose packages they need, if not the system's alone.

# Reads the lists of packages: the system's, and those of more lines of sources, with MIRROR in place of the mirror's
# address.
read_lists() { # LINE...
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -m 1 '/debian/$')
    mkdir -p "$tools"/apt/{lists,archives}/partial
    printf '%s\n' "${@//MIRROR/$mirror}" >"$tools/apt/sources.list"
    debian apt-get update
}

# Calls a program of apt with these lists, which are not the system's.
debian() {
    local program=$1
    shift
    "$program" -qq -o Dir::State::Lists="$tools/apt/lists" -o Dir::Cache="$tools/apt" \
        -o Dir::Etc::SourceList="$tools/apt/sources.list" -o APT::Sandbox::User=root -o Acquire::Languages=none \
        "${processors[@]/#/-oAPT::Architectures::=}" "$@"
}

unpack() { # FOLDER PACKAGE...
    local folder=$1 packages=$tools/apt/packages
    shift
    mkdir -p "$packages"
    (cd "$packages" && debian apt-get download "$@")
    local package
    for package in "$packages"/*.deb; do dpkg -x "$package" "$folder"; done
    rm -r "$packages"
}

# Unpacks the newest rustc, its libraries, and packages that belong to it.
unpack_rust() { # PACKAGE...
    local std
    std=$(depends libstd-rust-web-dev 'libstd-rust-web-[0-9.]+')
    unpack "$tools/rust" rustc-web libstd-rust-web-dev:amd64 "$std" "$(depends "$std" 'libllvm[0-9]+')" "$@"
}

depends() { # PACKAGE PATTERN: the package that it needs
    debian apt-cache depends "$1" | grep -oE "$2" | head -1
}

# Makes cargo use that rustc, and its clippy if it was unpacked, which precedes rustup's.
use_rust() {
    # rustc's own libraries; programs for another processor ignore them.
    export LD_LIBRARY_PATH=$tools/rust/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export RUSTC=$tools/rust/usr/bin/rustc PATH=$tools/rust/usr/bin:$PATH
}
