// mremap(MREMAP_DONTUNMAP) of marked memory: the data goes to the new place, the old one reads as
// zero, and neither touch may hang.
#include "hazard.h"

int main(void) {
    size_t bytes = 4 * MIB;
    char *from = marked(bytes);
    char *to = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (to == MAP_FAILED && errno == EINVAL) skip("no MREMAP_DONTUNMAP");
    must(to != MAP_FAILED, "mremap");
    alarm(20);
    for (size_t i = 0; i < bytes; i += PAGE) must(from[i] == 0, "the old place is not zero");
    check(to, bytes, "the new place");
    fill(from, bytes);
    mark(from, bytes);
    mark(to, bytes);
    check(to, bytes, "the new place, marked again");
    check(from, bytes, "the old place, marked again");
    return done();
}
