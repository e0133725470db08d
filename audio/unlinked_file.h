// A temporary file without a name: gone as soon as it is closed, or the process is.
#pragma once

#include <string>

#include "audio/unique_fd.h"

namespace vesper {

// Where temporary files are put: $TMPDIR, else /var/tmp, which unlike /tmp is rarely kept in
// memory, where it can be written to, else /tmp.
std::string temporary_folder();

// Opens a new one in that folder, for reading and writing. If it cannot, the descriptor is not open
// and errno says why.
UniqueFd open_unlinked_file();

}  // namespace vesper
