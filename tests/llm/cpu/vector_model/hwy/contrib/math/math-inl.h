// In place of Highway's: the functions are in hwy/highway.h.
#include "hwy/highway.h"
