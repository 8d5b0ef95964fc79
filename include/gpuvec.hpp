/**
 * @file
 * gpuvec for C++20: objects that own memory and handles, std::span arguments, exceptions.
 *
 *     std::vector<float> a{1, 2, 3}, b{10, 20, 30}, out(3);
 *     gpuvec::add(a, b, out);
 *     float dot = gpuvec::dot(a, b);
 *
 * Everything is inline and calls gpuvec.h, whose contract holds. An array is anything with contiguous elements:
 * std::vector, std::array, std::span, pinned_array, device_array. Objects can be moved but not copied, and convert
 * to gpuvec.h's pointers. Destructors report no error. Memory must outlive queued work that uses it: call
 * stream::synchronize before a pinned_array or a registration ends.
 *
 * Functions throw gpuvec::error, which has the status, or std::bad_alloc. In C++23, gpuvec::attempt calls a
 * function and returns its result or its error as a std::expected.
 */
#ifndef GPUVEC_HPP
#define GPUVEC_HPP

#if __cplusplus < 202002L
#error "gpuvec.hpp needs C++20; gpuvec.h needs C++11"
#endif

#include "gpuvec.h"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#include <version>
#ifdef __cpp_lib_expected
#include <expected>
#endif

namespace gpuvec {
/** A failed call, with its status and the text of gpuvec_last_error(). */
class error : public std::runtime_error {
  public:
    error(gpuvec_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
    gpuvec_status status() const noexcept { return status_; }

  private:
    gpuvec_status status_;
};

/** Throws an error unless a call of gpuvec.h succeeded. */
inline void check(gpuvec_status status) {
    if (status != GPUVEC_OK) { throw error(status, gpuvec_last_error()); }
}

#ifdef __cpp_lib_expected
/** Calls a function, and returns its result, or the error that it threw. */
template <std::invocable F> auto attempt(F &&call) -> std::expected<std::invoke_result_t<F>, error> {
    try {
        if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
            return std::invoke(std::forward<F>(call)), std::expected<void, error>();
        } else {
            return std::invoke(std::forward<F>(call));
        }
    } catch (const error &failure) {
        return std::unexpected(failure);
    }
}
#endif

/** The gpuvec_type of each element type of expressions. */
template <typename T> inline constexpr int32_t type_of = 0;
template <> inline constexpr int32_t type_of<bool> = GPUVEC_BOOL;
template <> inline constexpr int32_t type_of<std::uint8_t> = GPUVEC_U8;
template <> inline constexpr int32_t type_of<std::int8_t> = GPUVEC_I8;
template <> inline constexpr int32_t type_of<std::uint16_t> = GPUVEC_U16;
template <> inline constexpr int32_t type_of<std::int16_t> = GPUVEC_I16;
template <> inline constexpr int32_t type_of<std::uint32_t> = GPUVEC_U32;
template <> inline constexpr int32_t type_of<std::int32_t> = GPUVEC_I32;
template <> inline constexpr int32_t type_of<std::int64_t> = GPUVEC_I64;
template <> inline constexpr int32_t type_of<std::uint64_t> = GPUVEC_U64;
template <> inline constexpr int32_t type_of<float> = GPUVEC_F32;
template <> inline constexpr int32_t type_of<double> = GPUVEC_F64;

/** Contiguous elements, in memory of any kind. */
template <typename A>
concept array = requires(A &value) {
    { *std::data(value) };
    { std::size(value) } -> std::convertible_to<std::size_t>;
};

namespace detail {
template <typename T> using in = std::span<const T>;
template <typename T> using out = std::span<T>;

inline void require(bool holds, gpuvec_status status, const char *text) {
    if (!holds) { throw error(status, text); }
}

/** Throws an error unless arrays have the same size. */
inline void same_size(std::initializer_list<std::size_t> sizes) {
    const bool same = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to{}) == sizes.end();
    require(same, GPUVEC_ERROR_SIZE, "arrays of one call have different lengths");
}

/** Calls an elementwise operation. */
template <typename F, typename T, typename... In>
void for_each(F call, std::span<T> result, gpuvec_stream *on, In... inputs) {
    same_size({result.size(), inputs.size()...});
    check(call(inputs.data()..., result.data(), result.size(), on));
}

/** Calls a reduction. */
template <typename F, typename R, typename... In> void reduce(F call, R *result, gpuvec_stream *on, In... inputs) {
    same_size({inputs.size()...});
    check(call(inputs.data()..., result, std::max({inputs.size()...}), on));
}
template <typename R, typename F, typename... In> R value(F call, In... inputs) {
    R result;
    reduce(call, &result, nullptr, inputs...);
    return result;
}

/** Returns whether queried work is done. */
inline bool is_done(gpuvec_status status) { return status != GPUVEC_NOT_READY && (check(status), true); }

template <auto destroy> struct destroyer {
    template <typename T> void operator()(T *pointer) const noexcept { destroy(pointer); }
};

} // namespace detail

/** Owns an object that a function of gpuvec.h created; throws its error if the pointer is NULL. */
template <typename T, auto destroy> class handle {
  public:
    explicit handle(T *pointer) : pointer_(pointer) {
        if (pointer == nullptr) { throw error(gpuvec_last_status(), gpuvec_last_error()); }
    }
    T *get() const noexcept { return pointer_.get(); }
    operator T *() const noexcept { return get(); }

  private:
    std::unique_ptr<T, detail::destroyer<destroy>> pointer_;
};

/** Memory of elements, uninitialised. */
template <typename T, auto free>
    requires std::is_trivially_copyable_v<T>
class memory : public handle<void, free> {
  public:
    std::size_t size() const noexcept { return size_; }
    T *data() noexcept { return static_cast<T *>(this->get()); }
    const T *data() const noexcept { return static_cast<const T *>(this->get()); }
    operator std::span<T>() noexcept { return {data(), size_}; }
    operator std::span<const T>() const noexcept { return {data(), size_}; }

  protected:
    memory(std::size_t size, void *pointer) : handle<void, free>(pointer), size_(size) {}
    static std::size_t bytes(std::size_t size) {
        detail::require(size <= SIZE_MAX / sizeof(T), GPUVEC_ERROR_SIZE, "the elements do not fit into memory");
        return size * sizeof(T);
    }

  private:
    std::size_t size_;
};

/** A point in a stream's work, to wait for or to measure times between. */
class event : public handle<gpuvec_event, gpuvec_event_destroy> {
  public:
    event() : handle(gpuvec_event_create()) {}
    void record(gpuvec_stream *on) { check(gpuvec_event_record(get(), on)); }
    bool is_done() const { return detail::is_done(gpuvec_event_query(get())); }
    void synchronize() const { check(gpuvec_event_synchronize(get())); }
    /** Returns the milliseconds from another event to this one; both are done. */
    float since(const event &start) const {
        float milliseconds;
        check(gpuvec_event_elapsed(start.get(), get(), &milliseconds));
        return milliseconds;
    }
};

/** A queue of work that is done in order. */
class stream : public handle<gpuvec_stream, gpuvec_stream_destroy> {
  public:
    explicit stream(int32_t device = 0) : handle(gpuvec_stream_create(device)) {}
    /** Takes ownership of a handle, such as one from gpuvec_stream_from_native. */
    explicit stream(gpuvec_stream *created) : handle(created) {}
    void synchronize() const { check(gpuvec_stream_synchronize(get())); }
    bool is_done() const { return detail::is_done(gpuvec_stream_query(get())); }
    /** Makes work that is queued from now on wait for an event. */
    void wait(const event &before) { check(gpuvec_stream_wait(get(), before.get())); }
};

/** Page-locked host memory. */
template <typename T> class pinned_array : public memory<T, gpuvec_pinned_free> {
  public:
    explicit pinned_array(std::size_t size)
        : pinned_array::memory(size, gpuvec_pinned_alloc(pinned_array::bytes(size))) {}
    T *begin() noexcept { return this->data(); }
    T *end() noexcept { return begin() + this->size(); }
    const T *begin() const noexcept { return this->data(); }
    const T *end() const noexcept { return begin() + this->size(); }
    T &operator[](std::size_t i) noexcept { return begin()[i]; }
    const T &operator[](std::size_t i) const noexcept { return begin()[i]; }
};

/** Device memory, which only copy() and operations access. */
template <typename T> class device_array : public memory<T, gpuvec_device_free> {
  public:
    explicit device_array(std::size_t size, int32_t device = 0)
        : device_array::memory(size, gpuvec_device_alloc(device_array::bytes(size), device)) {}
    /** The number of the GPU, or -1 for host memory. */
    int32_t device() const noexcept { return gpuvec_device_of(this->data()); }
};

/** Keeps an existing array page-locked. */
class registration {
  public:
    template <array A> explicit registration(A &&elements)
        : registration(std::data(elements), std::size(elements) * sizeof(*std::data(elements))) {}
    registration(void *pointer, std::size_t bytes) {
        check(gpuvec_host_register(pointer, bytes));
        pointer_.reset(pointer);
    }

  private:
    std::unique_ptr<void, detail::destroyer<gpuvec_host_unregister>> pointer_;
};

/** Copies an array to one of the same length and type, each in memory of any kind. */
template <array To, array From> void copy(const From &source, To &&destination, gpuvec_stream *on = nullptr) {
    using element = std::remove_reference_t<decltype(*std::data(destination))>;
    static_assert(std::is_same_v<element, std::remove_cvref_t<decltype(*std::data(source))>>);
    detail::same_size({std::size(source), std::size(destination)});
    check(gpuvec_copy(std::data(destination), std::data(source), std::size(source) * sizeof(element), on));
}

/** The terms that an accumulator sums: elements of an array, or products of two arrays' elements. */
enum class terms { elements, products };

/** An exact sum of elements or products, which continues from call to call. */
template <typename T>
    requires std::same_as<T, float> || std::same_as<T, double>
class accumulator : public handle<gpuvec_accumulator, gpuvec_accumulator_destroy> {
  public:
    explicit accumulator(terms summed = terms::elements)
        : handle(gpuvec_accumulator_create(kind(summed))), summed_(summed) {}
    /** Makes an accumulator from what serialize() returned, or from sums of such states as integers. */
    explicit accumulator(std::span<const std::byte> state, terms summed = terms::elements)
        : handle(gpuvec_accumulator_deserialize_nd(kind(summed), 0, nullptr, state.data(), state.size())),
          summed_(summed) {}
    void add(std::span<const T> a, gpuvec_stream *on = nullptr) {
        detail::require(summed_ == terms::elements, GPUVEC_ERROR_VALUE, "this accumulator adds products");
        check(gpuvec_accumulator_add(get(), a.data(), nullptr, a.size(), on));
    }
    void add(std::span<const T> a, std::span<const T> b, gpuvec_stream *on = nullptr) {
        detail::require(summed_ == terms::products, GPUVEC_ERROR_VALUE, "this accumulator adds elements");
        detail::same_size({a.size(), b.size()});
        check(gpuvec_accumulator_add(get(), a.data(), b.data(), a.size(), on));
    }
    void merge(const accumulator &other) { check(gpuvec_accumulator_merge(get(), other.get())); }
    /** Returns the sum so far, rounded once. */
    T value() const {
        T sum;
        check(gpuvec_accumulator_value(get(), &sum));
        return sum;
    }
    /** Returns the state as little-endian 64-bit integers; states merge by adding these. */
    std::vector<std::byte> serialize() const {
        std::vector<std::byte> state(gpuvec_accumulator_bytes(kind(summed_)));
        check(gpuvec_accumulator_serialize(get(), state.data(), state.size()));
        return state;
    }

  private:
    static int32_t kind(terms summed) {
        constexpr bool is_float = std::is_same_v<T, float>;
        return summed == terms::elements ? (is_float ? GPUVEC_ACCUMULATOR_SUM_F32 : GPUVEC_ACCUMULATOR_SUM_F64)
                                         : (is_float ? GPUVEC_ACCUMULATOR_DOT_F32 : GPUVEC_ACCUMULATOR_DOT_F64);
    }
    terms summed_;
};

/** An array or a scalar of a call: `Void` is const void for inputs, and void for outputs. */
template <typename Void> struct operand {
    template <array A>
        requires std::convertible_to<decltype(std::data(std::declval<A &>())), Void *>
    operand(A &&elements)
        : pointer(std::data(elements)), type(type_of<std::remove_cvref_t<decltype(*std::data(elements))>>),
          size(std::size(elements)) {}
    template <typename T>
        requires std::is_arithmetic_v<T> && std::is_const_v<Void>
    operand(const T &value) : pointer(&value), type(type_of<T>), is_scalar(true) {}

    Void *pointer;
    int32_t type;
    std::size_t size = 1;
    bool is_scalar = false;
};

/** A formula over arrays and scalars, compiled for any number of calls. */
class expression : public handle<gpuvec_expr, gpuvec_expr_destroy> {
  public:
    /** The name of an input, and its type: a gpuvec_type, or one with GPUVEC_SCALAR or GPUVEC_NUMBER. */
    struct input { const char *name; int32_t type; };
    expression(const std::string &text, std::initializer_list<input> inputs) : handle(compile(text, inputs)) {
        std::transform(inputs.begin(), inputs.end(), std::back_inserter(types_), [](auto &in) { return in.type; });
    }
    /** Evaluates the expression: run({out}, {a, b, 2.0f}), with an output for each formula. */
    void run(std::initializer_list<operand<void>> outputs, std::initializer_list<operand<const void>> inputs,
             gpuvec_stream *on = nullptr) const {
        const auto require = [](bool holds, const char *text) { detail::require(holds, GPUVEC_ERROR_VALUE, text); };
        const auto count = num_outputs();
        require(inputs.size() == types_.size(), "the expression has another number of inputs");
        require(outputs.size() == count, "the expression has another number of outputs");
        std::vector<const void *> in;
        std::vector<void *> out;
        std::optional<std::size_t> length;
        const auto expect = [&](std::size_t size) { detail::same_size({*(length ? length : length = size), size}); };
        for (const auto &given : inputs) {
            const int32_t declared = types_[in.size()];
            require(given.type == (declared & ~one_value), "an input has another type than the declared one");
            require(given.is_scalar == ((declared & one_value) != 0), "an input is not the declared array or scalar");
            if (!given.is_scalar) { expect(given.size); }
            in.push_back(given.pointer);
        }
        for (const auto &given : outputs) {
            require(given.type == output_type(out.size()), "an output has another type than its formula");
            is_reduction(out.size()) ? detail::same_size({given.size, 1}) : expect(given.size);
            out.push_back(given.pointer);
        }
        check(gpuvec_expr_run_outputs(own(), in.data(), out.data(), out.size(), length.value_or(1), on));
    }
    void prepare(int32_t device = 0) const { check(gpuvec_expr_prepare(own(), device)); }
    std::size_t num_outputs() const { return static_cast<std::size_t>(gpuvec_expr_num_outputs(own())); }
    int32_t output_type(std::size_t index = 0) const { return gpuvec_expr_output_type_at(own(), index); }
    bool is_reduction(std::size_t index = 0) const { return gpuvec_expr_is_reduction_at(own(), index) == 1; }

  private:
    /** Returns the handle; fails if it was moved to another object. */
    gpuvec_expr *own() const {
        detail::require(get() != nullptr, GPUVEC_ERROR_NULL, "the expression was moved from");
        return get();
    }
    static constexpr int32_t one_value = GPUVEC_SCALAR | GPUVEC_NUMBER;
    static gpuvec_expr *compile(const std::string &text, std::initializer_list<input> inputs) {
        std::vector<const char *> names;
        std::vector<int32_t> types;
        for (const auto &[name, type] : inputs) {
            names.push_back(name);
            types.push_back(type);
        }
        gpuvec_expr *compiled;
        check(gpuvec_expr_compile(text.c_str(), names.data(), types.data(), names.size(), &compiled));
        return compiled;
    }
    std::vector<int32_t> types_;
};

/* add(a, b, out), sum(a), dot(a, b), ...; on a stream add(a, b, out, stream), sum(a, &out, stream), ... */
/* Written by build.rs, from the table of operations: */
/** Adds: `out[i] = a[i] + b[i]`. */
inline void add(detail::in<float> a, detail::in<float> b,
    detail::out<float> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_add_f32, result, on, a, b);
}
inline void add(detail::in<double> a, detail::in<double> b,
    detail::out<double> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_add_f64, result, on, a, b);
}
inline void add(detail::in<int32_t> a, detail::in<int32_t> b,
    detail::out<int32_t> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_add_i32, result, on, a, b);
}
inline void add(detail::in<int64_t> a, detail::in<int64_t> b,
    detail::out<int64_t> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_add_i64, result, on, a, b);
}
/** Subtracts: `out[i] = a[i] - b[i]`. */
inline void sub(detail::in<float> a, detail::in<float> b,
    detail::out<float> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_sub_f32, result, on, a, b);
}
inline void sub(detail::in<double> a, detail::in<double> b,
    detail::out<double> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_sub_f64, result, on, a, b);
}
inline void sub(detail::in<int32_t> a, detail::in<int32_t> b,
    detail::out<int32_t> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_sub_i32, result, on, a, b);
}
inline void sub(detail::in<int64_t> a, detail::in<int64_t> b,
    detail::out<int64_t> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_sub_i64, result, on, a, b);
}
/** Multiplies: `out[i] = a[i] * b[i]`. */
inline void mul(detail::in<float> a, detail::in<float> b,
    detail::out<float> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_mul_f32, result, on, a, b);
}
inline void mul(detail::in<double> a, detail::in<double> b,
    detail::out<double> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_mul_f64, result, on, a, b);
}
inline void mul(detail::in<int32_t> a, detail::in<int32_t> b,
    detail::out<int32_t> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_mul_i32, result, on, a, b);
}
inline void mul(detail::in<int64_t> a, detail::in<int64_t> b,
    detail::out<int64_t> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_mul_i64, result, on, a, b);
}
/** Divides: `out[i] = a[i] / b[i]`. */
inline void div(detail::in<float> a, detail::in<float> b,
    detail::out<float> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_div_f32, result, on, a, b);
}
inline void div(detail::in<double> a, detail::in<double> b,
    detail::out<double> result, gpuvec_stream *on = nullptr) {
    detail::for_each(gpuvec_div_f64, result, on, a, b);
}
/** Multiplies by a number: `out[i] = alpha * a[i]`. */
inline void scale(float alpha, detail::in<float> a,
    detail::out<float> result, gpuvec_stream *on = nullptr) {
    detail::for_each(std::bind_front(gpuvec_scale_f32, alpha), result, on, a);
}
inline void scale(double alpha, detail::in<double> a,
    detail::out<double> result, gpuvec_stream *on = nullptr) {
    detail::for_each(std::bind_front(gpuvec_scale_f64, alpha), result, on, a);
}
/** Adds a multiple: `out[i] = alpha * a[i] + b[i]`. Each element is rounded once, as by `fma`. */
inline void axpy(float alpha, detail::in<float> a, detail::in<float> b,
    detail::out<float> result, gpuvec_stream *on = nullptr) {
    detail::for_each(std::bind_front(gpuvec_axpy_f32, alpha), result, on, a, b);
}
inline void axpy(double alpha, detail::in<double> a, detail::in<double> b,
    detail::out<double> result, gpuvec_stream *on = nullptr) {
    detail::for_each(std::bind_front(gpuvec_axpy_f64, alpha), result, on, a, b);
}
/** Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`. */
inline float dot(detail::in<float> a, detail::in<float> b) { return detail::value<float>(gpuvec_dot_f32, a, b); }
inline void dot(detail::in<float> a, detail::in<float> b, float *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_dot_f32, result, on, a, b);
}
inline double dot(detail::in<double> a, detail::in<double> b) { return detail::value<double>(gpuvec_dot_f64, a, b); }
inline void dot(detail::in<double> a, detail::in<double> b, double *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_dot_f64, result, on, a, b);
}
inline int64_t dot(detail::in<int32_t> a, detail::in<int32_t> b) { return detail::value<int64_t>(gpuvec_dot_i32, a, b); }
inline void dot(detail::in<int32_t> a, detail::in<int32_t> b, int64_t *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_dot_i32, result, on, a, b);
}
inline int64_t dot(detail::in<int64_t> a, detail::in<int64_t> b) { return detail::value<int64_t>(gpuvec_dot_i64, a, b); }
inline void dot(detail::in<int64_t> a, detail::in<int64_t> b, int64_t *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_dot_i64, result, on, a, b);
}
/** Sum: `out[0] = a[0] + … + a[n-1]`. */
inline float sum(detail::in<float> a) { return detail::value<float>(gpuvec_sum_f32, a); }
inline void sum(detail::in<float> a, float *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_sum_f32, result, on, a);
}
inline double sum(detail::in<double> a) { return detail::value<double>(gpuvec_sum_f64, a); }
inline void sum(detail::in<double> a, double *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_sum_f64, result, on, a);
}
inline int64_t sum(detail::in<int32_t> a) { return detail::value<int64_t>(gpuvec_sum_i32, a); }
inline void sum(detail::in<int32_t> a, int64_t *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_sum_i32, result, on, a);
}
inline int64_t sum(detail::in<int64_t> a) { return detail::value<int64_t>(gpuvec_sum_i64, a); }
inline void sum(detail::in<int64_t> a, int64_t *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_sum_i64, result, on, a);
}
/** Minimum: `out[0]` is the smallest `a[i]`. */
inline float min(detail::in<float> a) { return detail::value<float>(gpuvec_min_f32, a); }
inline void min(detail::in<float> a, float *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_min_f32, result, on, a);
}
inline double min(detail::in<double> a) { return detail::value<double>(gpuvec_min_f64, a); }
inline void min(detail::in<double> a, double *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_min_f64, result, on, a);
}
inline int32_t min(detail::in<int32_t> a) { return detail::value<int32_t>(gpuvec_min_i32, a); }
inline void min(detail::in<int32_t> a, int32_t *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_min_i32, result, on, a);
}
inline int64_t min(detail::in<int64_t> a) { return detail::value<int64_t>(gpuvec_min_i64, a); }
inline void min(detail::in<int64_t> a, int64_t *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_min_i64, result, on, a);
}
/** Maximum: `out[0]` is the largest `a[i]`. */
inline float max(detail::in<float> a) { return detail::value<float>(gpuvec_max_f32, a); }
inline void max(detail::in<float> a, float *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_max_f32, result, on, a);
}
inline double max(detail::in<double> a) { return detail::value<double>(gpuvec_max_f64, a); }
inline void max(detail::in<double> a, double *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_max_f64, result, on, a);
}
inline int32_t max(detail::in<int32_t> a) { return detail::value<int32_t>(gpuvec_max_i32, a); }
inline void max(detail::in<int32_t> a, int32_t *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_max_i32, result, on, a);
}
inline int64_t max(detail::in<int64_t> a) { return detail::value<int64_t>(gpuvec_max_i64, a); }
inline void max(detail::in<int64_t> a, int64_t *result, gpuvec_stream *on) {
    detail::reduce(gpuvec_max_i64, result, on, a);
}
/* End of what build.rs writes. */

} // namespace gpuvec
#endif /* GPUVEC_HPP */
