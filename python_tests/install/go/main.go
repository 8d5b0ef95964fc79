// Computes 1*4 + 2*5 + 3*6 from Go, and reads the text of an error.
package main

// #cgo pkg-config: gpuvec
// #include <gpuvec.h>
import "C"

import (
	"fmt"
	"os"
)

func main() {
	a, b := []C.float{1, 2, 3}, []C.float{4, 5, 6}
	var dot C.float
	status := C.gpuvec_dot_f32(&a[0], &b[0], &dot, C.size_t(len(a)), nil)
	if status != C.GPUVEC_OK {
		fmt.Fprintln(os.Stderr, C.GoString(C.gpuvec_last_error()))
		os.Exit(1)
	}
	fmt.Println(dot)

	if C.gpuvec_dot_f32(nil, &b[0], &dot, 3, nil) != C.GPUVEC_ERROR_NULL {
		os.Exit(2)
	}
	fmt.Println(C.GoString(C.gpuvec_last_error())[:6])
}
