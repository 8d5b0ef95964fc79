/* Makes the first calls of many threads concurrently, and counts the library's threads. */
#define _GNU_SOURCE
#include "gpuvec.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 300000, CALLERS = 64, MAIN_AND_SAMPLER = 2, MOST_NUMBERS = 1024 };

static float ones[N], sums[CALLERS][N];
static pthread_barrier_t together;
static volatile int is_done;
static int peak;

static void *call(void *out) {
    float *sum = out;
    pthread_barrier_wait(&together);
    int32_t status = vector_add(ones, ones, sum, N);
    for (int i = 0; i < N; i++) {
        if (status != GPUVEC_OK || sum[i] != 2) {
            printf("wrong: %s\n", gpuvec_last_error());
            exit(1);
        }
    }
    return NULL;
}

/* Returns the number of the process's threads. */
static int threads(int status_file) {
    char text[4096];
    ssize_t bytes = pread(status_file, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    const char *line = strstr(text, "\nThreads:");
    return line ? atoi(line + strlen("\nThreads:")) : 0;
}

static void *sample(void *unused) {
    int file = open("/proc/self/status", O_RDONLY);
    while (!is_done) {
        int now = threads(file);
        peak = now > peak ? now : peak;
    }
    close(file);
    return unused;
}

/* Counts the library's threads that share their name with another thread. */
static int duplicates(int *helpers) {
    static int seen[MOST_NUMBERS];
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char path[300], name[64] = "";
        int number = -1;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL && fgets(name, sizeof name, file) != NULL &&
            sscanf(name, "gpuvec-%d", &number) == 1 && number >= 0 && number < MOST_NUMBERS) {
            *helpers += 1;
            count += seen[number]++ > 0;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(folder);
    return count;
}

/* first_calls HELPERS: the most threads that the library may have at any time. */
int main(int count, char **argument) {
    int allowed = count == 2 ? atoi(argument[1]) : 0, helpers = 0;
    pthread_t callers[CALLERS], sampler;
    for (int i = 0; i < N; i++) {
        ones[i] = 1;
    }
    pthread_barrier_init(&together, NULL, CALLERS);
    pthread_create(&sampler, NULL, sample, NULL);
    for (int i = 0; i < CALLERS; i++) {
        if (pthread_create(&callers[i], NULL, call, sums[i]) != 0) {
            return 2;
        }
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i], NULL);
    }
    is_done = 1;
    pthread_join(sampler, NULL);
    int twice = duplicates(&helpers);
    if (peak > CALLERS + MAIN_AND_SAMPLER + allowed || twice != 0 || helpers > allowed) {
        printf("at most %d threads, %d of the library's afterwards, %d names there twice\n", peak,
               helpers, twice);
        return 1;
    }
    return 0;
}
