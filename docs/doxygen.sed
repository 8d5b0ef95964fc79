# Makes Doxygen's headings and member groups of the header's sections.
s|^ \* == (.*) ==$| * ## \1|
s|^#define GPUVEC_H$|&\n/** @{ */|
/^\/\* == /,/^ \*\/$/ {
    s|^ \*/$|&\n/** @{ */|
    s|^/\* == (All functions) ==$|/** @} */\n/** @file\n * # \1|
    s|^/\* == (.*) ==$|/** @} */\n/** @name \1|
}
s|^#endif  /\* GPUVEC_H \*/|/** @} */\n/** @mainpage\n * gpuvec.h has all of it. */\n&|
