// Computes 1*4 + 2*5 + 3*6 from Go, and reads the text of an error.
package main

// #cgo pkg-config: gpuvec
// #include <gpuvec.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
)

// dot returns the dot product of n elements of a and b.
//
// The text of an error belongs to the thread of the call. A goroutine may go on in another thread
// after each call, so LockOSThread keeps it on one until the text is read.
func dot(a, b *C.float, n int) (C.float, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out C.float
	if C.gpuvec_dot_f32(a, b, &out, C.size_t(n), nil) != C.GPUVEC_OK {
		return 0, errors.New(C.GoString(C.gpuvec_last_error()))
	}
	return out, nil
}

func main() {
	a, b := []C.float{1, 2, 3}, []C.float{4, 5, 6}
	product, err := dot(&a[0], &b[0], len(a))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(product)

	if _, err = dot(nil, &b[0], 3); err == nil {
		os.Exit(2)
	}
	fmt.Println(err.Error()[:6])

	var goroutines sync.WaitGroup
	for i := 1; i <= 64; i++ {
		goroutines.Add(1)
		go func(first int) {
			defer goroutines.Done()
			fail(first, 1000)
		}(i * 1000)
	}
	goroutines.Wait()
}

// fail makes calls of different lengths without arrays, and exits if an error is not that of its call.
func fail(first, count int) {
	for n := first; n < first+count; n++ {
		_, err := dot(nil, nil, n)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("length is %d:", n)) {
			fmt.Fprintln(os.Stderr, n, err)
			os.Exit(3)
		}
	}
}
