/* Says which entries of the conformance set an implementation fails.

       cc -O2 -o check check.c -lm && ./check SET RESULTS

   RESULTS has a file for each entry that the implementation computes: NAME.npy, or NAME.bin with the values alone. They
   are compared by their bits. The exit code is 0 if all of them are the expected ones, 1 if one is not or there is none,
   2 if SET is no set. For processors that store the lowest byte first. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The values in a file: its last `bytes`, behind the header of .npy or alone. NULL, and `*there`, for other lengths. */
static unsigned char *values(const char *folder, const char *name, const char *ending, size_t bytes, int *there) {
    char path[4096];
    unsigned char start[10] = {0}, *found = malloc(bytes + 1);
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *file = fopen(path, "rb");
    *there = file != NULL;
    int is_npy = file && fread(start, 1, 10, file) == 10 && !memcmp(start, "\x93NUMPY", 6);
    long stated = start[8] + 256L * start[9] + (start[6] == 1 ? 10 : 12);
    long header = file && !fseek(file, 0, SEEK_END) ? ftell(file) - (long)bytes : -1;
    int is_right = found && (header == 0 || (is_npy && header == stated)) && !fseek(file, header, SEEK_SET)
                   && fread(found, 1, bytes, file) == bytes;
    if (file) fclose(file);
    if (is_right) return found;
    free(found);
    return NULL;
}

/* The value at an address: f4 and f8 are floats, u1, i8 and the like integers. */
static double number(const unsigned char *at, char kind, unsigned size) {
    float single;
    double real;
    int64_t whole = kind == 'i' && at[size - 1] > 127 ? -1 : 0;
    if (kind == 'f' && size == 4) return memcpy(&single, at, 4), single;
    if (kind == 'f' && size == 8) return memcpy(&real, at, 8), real;
    return memcpy(&whole, at, size), (double)whole;
}

int main(int count, char **arguments) {
    char path[4096] = "", name[256] = "", kind, width[2], sizes[64];
    int passed = 0, failed = 0, missing = 0, there;
    if (count == 3) snprintf(path, sizeof path, "%s/index.txt", arguments[1]);
    FILE *index = fopen(path, "r");
    if (!index) return fprintf(stderr, "check: give the folder of the set, which has index.txt, and that of results\n"), 2;
    while (fscanf(index, "%255s %c%1[1248] %63[0-9x]%*[^\n]", name, &kind, width, sizes) == 4) {
        unsigned size = (unsigned)atoi(width);
        size_t bytes = size, different = 0;
        double most = 0;
        for (char *at = sizes; *at; at += *at == 'x') bytes *= strtoul(at, &at, 10);
        snprintf(path, sizeof path, "%s/expected", arguments[1]);
        unsigned char *wanted = values(path, name, ".npy", bytes, &there);
        if (!wanted) return fprintf(stderr, "check: %s/%s.npy is no file of %s values\n", path, name, sizes), 2;
        unsigned char *found = values(arguments[2], name, ".npy", bytes, &there);
        if (!there) found = values(arguments[2], name, ".bin", bytes, &there);
        for (size_t at = 0; found && at < bytes; at += size) {
            if (!memcmp(wanted + at, found + at, size)) continue;
            double apart = fabs(number(wanted + at, kind, size) - number(found + at, kind, size));
            if (!(apart <= most)) most = apart == apart ? apart : INFINITY;
            different++;
        }
        if (there && !found) printf("FAIL %s: its file does not hold %s values of %c%u\n", name, sizes, kind, size);
        if (different) printf("FAIL %s: %zu of %zu values differ, by at most %.9g\n", name, different, bytes / size, most);
        *(!there ? &missing : found && !different ? &passed : &failed) += 1;
        free(wanted);
        free(found);
    }
    int is_whole = feof(index);
    fclose(index);
    if (!is_whole) return fprintf(stderr, "check: the line of %s in index.txt is none of an entry\n", name), 2;
    printf("%d passed, %d failed, %d without a result\n", passed, failed, missing);
    return failed || !passed;
}
