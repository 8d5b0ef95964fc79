/*
 * Double buffering: a signal arrives chunk by chunk, as from a file, and two slots process the
 * chunks alternately. While the program reads a chunk into one slot's pinned buffer, the GPU copies
 * and processes the other slot's chunk. Each slot has a stream, and an event that marks the point at
 * which its buffers may be reused.
 */
#include "check.h"

enum { CHUNK = 1 << 16, SLOTS = 2 };

/* Simulates a file, which is read from front to end. */
struct source {
    size_t next, end;
};

/* The resources for one chunk. All results are whole numbers, and therefore exact. */
struct slot {
    gpuvec_stream *stream;
    gpuvec_event *done;
    float *in, *out, *energy; /* pinned, so that copies from and to them are queued */
    float *device;
    size_t first, count; /* the chunk's samples; count is 0 if the slot is free */
};

static float sample(size_t i)
{
    return (float)(i * 7919 % 2001) - 1000;
}

static float background(size_t i)
{
    return (float)(i % 17);
}

static size_t read_samples(struct source *source, float *to, size_t most)
{
    const size_t left = source->end - source->next;
    const size_t count = left < most ? left : most;
    for (size_t i = 0; i < count; i++) {
        to[i] = sample(source->next + i);
    }
    source->next += count;
    return count;
}

static float *pinned(size_t n)
{
    float *array = pinned_alloc(n * sizeof *array);
    CHECK(array != NULL);
    return array;
}

static float *on_device(size_t n)
{
    float *array = gpuvec_device_alloc(n * sizeof *array, 0);
    CHECK(array != NULL);
    return array;
}

static struct slot open_slot(void)
{
    struct slot slot = {
        .stream = gpuvec_stream_create(0),
        .done = gpuvec_event_create(),
        .in = pinned(CHUNK),
        .out = pinned(CHUNK),
        .energy = pinned(1),
        .device = on_device(CHUNK),
    };
    CHECK(slot.stream != NULL && slot.done != NULL);
    return slot;
}

static void close_slot(struct slot *slot)
{
    CHECK_OK(gpuvec_stream_destroy(slot->stream));
    CHECK_OK(gpuvec_event_destroy(slot->done));
    CHECK_OK(pinned_free(slot->in));
    CHECK_OK(pinned_free(slot->out));
    CHECK_OK(pinned_free(slot->energy));
    CHECK_OK(gpuvec_device_free(slot->device));
}

/* Reads the next chunk into a free slot; returns 0 at the end of the source. */
static int fill(struct slot *slot, struct source *source)
{
    slot->first = source->next;
    slot->count = read_samples(source, slot->in, CHUNK);
    return slot->count > 0;
}

/* Queues the work on a chunk: copy in, subtract the background, energy, copy out. */
static void queue(struct slot *slot, const float *noise)
{
    const size_t bytes = slot->count * sizeof(float);
    float *chunk = slot->device;
    CHECK_OK(gpuvec_copy(chunk, slot->in, bytes, slot->stream));
    CHECK_OK(gpuvec_sub_f32(chunk, noise, chunk, slot->count, slot->stream));
    CHECK_OK(gpuvec_dot_f32(chunk, chunk, slot->energy, slot->count, slot->stream));
    CHECK_OK(gpuvec_copy(slot->out, chunk, bytes, slot->stream));
    CHECK_OK(gpuvec_event_record(slot->done, slot->stream));
}

/* Waits for a slot's chunk, if the slot has one, and checks the results. */
static void collect(struct slot *slot)
{
    CHECK_OK(gpuvec_event_synchronize(slot->done));
    double energy = 0;
    for (size_t i = 0; i < slot->count; i++) {
        const float expected = sample(slot->first + i) - background(i);
        CHECK(slot->out[i] == expected);
        energy += (double)expected * (double)expected;
    }
    CHECK(slot->count == 0 || *slot->energy == (float)energy);
    slot->count = 0;
}

/* Copies the background, which is the same for every chunk, to the device. */
static float *background_on_device(void)
{
    static float values[CHUNK];
    for (size_t i = 0; i < CHUNK; i++) {
        values[i] = background(i);
    }
    float *noise = on_device(CHUNK);
    CHECK_OK(gpuvec_copy(noise, values, sizeof values, NULL));
    return noise;
}

/* Processes all chunks in the slots alternately; returns the number of chunks. */
static size_t stream_through(struct slot slots[SLOTS], struct source *source, const float *noise)
{
    for (size_t chunks = 0;; chunks++) {
        struct slot *slot = &slots[chunks % SLOTS];
        collect(slot);
        if (!fill(slot, source)) {
            return chunks;
        }
        queue(slot, noise);
    }
}

/* Makes the first slot's stream wait for the other slots: its next event follows all work. */
static void join(struct slot slots[SLOTS])
{
    for (int i = 1; i < SLOTS; i++) {
        CHECK_OK(gpuvec_stream_wait(slots[0].stream, slots[i].done));
    }
}

int main(int argc, char **argv)
{
    struct source source = {0, size_argument(argc, argv, 1000000)};
    struct slot slots[SLOTS] = {open_slot(), open_slot()};
    gpuvec_event *start = gpuvec_event_create();
    gpuvec_event *end = gpuvec_event_create();
    float *noise = background_on_device();
    CHECK(start != NULL && end != NULL);

    CHECK_OK(gpuvec_event_record(start, slots[0].stream));
    const size_t chunks = stream_through(slots, &source, noise);
    join(slots);
    CHECK_OK(gpuvec_event_record(end, slots[0].stream));
    for (int i = 0; i < SLOTS; i++) {
        collect(&slots[i]);
    }
    float milliseconds;
    CHECK_OK(gpuvec_event_synchronize(end));
    CHECK_OK(gpuvec_event_elapsed(start, end, &milliseconds));
    CHECK(milliseconds >= 0 && source.next == source.end);
    printf("%zu samples in %zu chunks in %.3f ms, including reading and checking\n", source.end,
           chunks, (double)milliseconds);

    for (int i = 0; i < SLOTS; i++) {
        close_slot(&slots[i]);
    }
    CHECK_OK(gpuvec_event_destroy(start));
    CHECK_OK(gpuvec_event_destroy(end));
    CHECK_OK(gpuvec_device_free(noise));
    return EXIT_SUCCESS;
}
