# Writes the manual page gpuvec(3), as roff, from the header: its opening comment, then every
# declaration with the declaration's comment.
#
#     awk -v version=0.1.0 -f install/man_page.awk include/gpuvec.h

BEGIN { printf ".TH GPUVEC 3 \"\" \"gpuvec %s\" \"Library functions\"\n.ad l\n.nh\n", version }

/^\/\* == .* == \*\/$/ { section($0); next }

/^ *\/\*\*/ { is_comment = 1; lines = 0 }

is_comment {
    is_comment = !sub(/ *\*\/$/, "")
    sub(/^ *\/?\*+ ?/, "")
    comment[++lines] = $0
    if (!is_comment && !is_opened) { opening() }
    next
}

# C++'s spelling of an enumeration, and what has no comment of its own.
/^ *#(if|else|endif)|^  : / || !lines { next }

{
    sub(/^ +/, declaration == "" ? "" : " ")
    declaration = declaration $0
}

/^#define|[;{]$| = .*,$/ { declared() }

# The comment begins with @file and a sentence that names the page.
function opening() {
    is_opened = 1
    sub(/^gpuvec: /, "gpuvec \\- ", comment[3])
    sub(/\.$/, "", comment[3])
    print ".SH NAME\n" comment[3] "\n.SH SYNOPSIS\n\\fB#include <gpuvec.h>\\fP\n.PP\n" \
        "Link with \\fB\\-lgpuvec\\fP.\n.SH DESCRIPTION"
    paragraphs(4)
}

function declared() {
    if (sub(/ *\{$/, "", declaration)) { sub(/^typedef /, "", declaration) }
    sub(/[;,]$/, "", declaration)
    # The second spelling of an enumeration, for C before C23.
    if (declaration !~ /^typedef int32_t/) {
        print ".PP\n\\fB" escaped(declaration) "\\fP\n.RS 4"
        separator = ""
        paragraphs(1)
        print ".RE"
    }
    declaration = ""
    lines = 0
}

# Prints the comment from a line on, paragraph by paragraph.
function paragraphs(first,    i, text) {
    comment[lines + 1] = ""
    for (i = first; i <= lines + 1; i++) {
        if (comment[i] != "") {
            text = text "\n" comment[i]
        } else if (text != "") {
            paragraph(substr(text, 2))
            text = ""
        }
    }
    lines = 0
}

function paragraph(text) {
    if (text ~ /^== /) {
        section(text)
    } else if (text ~ /^    /) {
        print separator ".nf\n" escaped(text) "\n.fi"
    } else {
        print separator escaped(text)
    }
    separator = ".PP\n"
}

function section(title) {
    gsub(/^[^=]*== | ==[^=]*$/, "", title)
    print ".SH " toupper(title)
}

# Escapes what roff would read, and sets what stands between backticks in bold.
function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/…/, "...", text)
    gsub(/\n\./, "\n\\\\\\&.", text)
    gsub(/\n'/, "\n\\\\\\&'", text)
    while (match(text, /`[^`]*`/)) {
        text = substr(text, 1, RSTART - 1) "\\fB" substr(text, RSTART + 1, RLENGTH - 2) "\\fP" \
            substr(text, RSTART + RLENGTH)
    }
    return text
}
