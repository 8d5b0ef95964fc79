# Writes the manual pages, as roff, from the header: gpuvec(3), with the rules for all functions; a page for each
# section of functions, such as gpuvec_reductions(3); and for each function a page that refers to its section.
#
#     awk -v version=0.1.0 -v date=2026-01-31 -v folder=man3 -f install/man_pages.awk include/gpuvec.h

BEGIN { page = "gpuvec" }

/^\/\* == .* ==$/ {
    title = in_title($0)
    page = title ~ /^(Constants and types|All functions)$/ ? "gpuvec" : page_of(title)
    if (!(page in titles)) { sections[++section_count] = page; titles[page] = tolower(title) }
    is_comment = is_section = 1
    lines = 0
    next
}

/^ *\/\*\*/ { is_comment = 1; lines = 0 }

is_comment {
    is_comment = !sub(/ *\*\/$/, "")
    sub(/^ *\/?\*+ ?/, "")
    comment[++lines] = $0
    if (!is_comment && !is_opened) { opening() }
    if (!is_comment && is_section) { introduction() }
    next
}

# C++'s spelling of an enumeration, and declarations without a comment of their own.
/^ *#(if|else|endif)|^  : / || !lines { next }

{
    sub(/^ +/, declaration == "" ? "" : " ")
    declaration = declaration $0
}

/^#define|[;{]$| = .*,$/ { declared() }

END {
    for (name in descriptions) { write_page(name) }
    for (name in page_of_function) {
        # A section may have the name of one of its functions.
        if (name in titles) { continue }
        printf ".so man3/%s.3\n", page_of_function[name] >(folder "/" name ".3")
    }
}

# The comment begins with @file and a sentence that names the page.
function opening() {
    is_opened = 1
    sub(/^gpuvec: /, "", comment[3])
    sub(/\.$/, "", comment[3])
    titles["gpuvec"] = comment[3]
    descriptions["gpuvec"] = paragraphs(4)
}

# The comment at the beginning of a section.
function introduction() {
    is_section = 0
    if (page == "gpuvec") {
        descriptions[page] = descriptions[page] ".SH " toupper(title) "\n" paragraphs(1)
    } else {
        descriptions[page] = paragraphs(1)
    }
}

function declared(    text, name) {
    if (sub(/ *\{$/, "", declaration)) { sub(/^typedef /, "", declaration) }
    sub(/[;,]$/, "", declaration)
    text = ".PP\n\\fB" escaped(declaration) "\\fP\n.RS 4\n" paragraphs(1) ".RE\n"
    if (match(declaration, /[a-z0-9_]+\(/) && declaration !~ /^#/) {
        name = substr(declaration, RSTART, RLENGTH - 1)
        page_of_function[name] = page
        names[page] = names[page] (names[page] == "" ? "" : ", ") name
        synopses[page] = synopses[page] ".br\n\\fB" escaped(declaration) ";\\fP\n"
        functions[page] = functions[page] text
    } else if (declaration ~ /^typedef int32_t/) {
        # The second spelling of an enumeration, for C before C23.
    } else if (page == "gpuvec") {
        descriptions[page] = descriptions[page] text
    } else {
        types[page] = types[page] text
    }
    declaration = ""
    lines = 0
}

function write_page(name,    is_main, file) {
    is_main = name == "gpuvec"
    file = folder "/" name ".3"
    printf ".TH %s 3 \"%s\" \"gpuvec %s\" \"Library functions\"\n", toupper(name), date, version >file
    print ".ad l\n.nh" >file
    print ".SH NAME\n" (is_main ? name : names[name]) " \\- " titles[name] (is_main ? "" : " of gpuvec") >file
    print ".SH SYNOPSIS\n\\fB#include <gpuvec.h>\\fP" >file
    if (!is_main) { printf ".PP\n%s", without_break(synopses[name]) >file }
    print ".PP\nLink with \\fB\\-lgpuvec\\fP.\n.SH DESCRIPTION" >file
    printf "%s", descriptions[name] >file
    if (name in types) { printf ".SH CONSTANTS AND TYPES\n%s", without_break(types[name]) >file }
    if (name in functions) { printf ".SH FUNCTIONS\n%s", without_break(functions[name]) >file }
    print ".SH SEE ALSO\n" (is_main ? other_pages() : "\\fBgpuvec\\fP(3)") >file
}

# Returns a text without the .PP or .br with which it begins.
function without_break(text) {
    return substr(text, 5)
}

function other_pages(    i, text) {
    for (i = 1; i <= section_count; i++) {
        text = text (i == 1 ? "" : ",\n") "\\fB" sections[i] "\\fP(3)"
    }
    return text
}

# Returns the comment from a line on, paragraph by paragraph.
function paragraphs(first,    i, text, all, separator) {
    comment[lines + 1] = ""
    for (i = first; i <= lines + 1; i++) {
        if (comment[i] != "") {
            text = text "\n" comment[i]
        } else if (text != "") {
            text = substr(text, 2)
            if (text ~ /^== /) {
                all = all ".SH " toupper(in_title(text)) "\n"
            } else {
                all = all (text ~ /^- / ? "" : separator) paragraph(text)
            }
            separator = text ~ /^== / ? "" : ".PP\n"
            text = ""
        }
    }
    lines = 0
    return all
}

function paragraph(text) {
    if (text ~ /^    /) { return ".nf\n" escaped(text) "\n.fi\n" }
    if (text ~ /^- /) {
        text = "\n" escaped(text)
        gsub(/\n\\- /, "\n.IP \\(bu 2\n", text)
        gsub(/\n  /, "\n", text)
        return substr(text, 2) "\n"
    }
    return escaped(text) "\n"
}

function in_title(line) {
    gsub(/^[^=]*== | ==[^=]*$/, "", line)
    return line
}

# "Streams and events" is the title of the page gpuvec_streams_and_events.
function page_of(title) {
    title = tolower(title)
    gsub(/ /, "_", title)
    return "gpuvec_" title
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
