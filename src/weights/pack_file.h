// Packing to a file that other processes and later starts can trust: one packer at a time, blocks in order, a record of what
// is finished, a rename at the end.
#pragma once

#include <functional>

#include "base/file.h"
#include "base/result.h"
#include "weights/file_lock.h"
#include "weights/load.h"
#include "weights/pack.h"

namespace lily {

using ProgressFunction = std::function<void(const PackProgress&)>;

// Creates the folder of an image. kPermission when it cannot be.
Result<void> prepare_folder(const Path& folder);

// The lock of one image file (`path`.lock).
Result<FileLock> lock_image(const Path& path, const ProgressFunction& progress);

// Writes the image `plan` describes. Continues `path`.part if a process that was interrupted left one that fits and whose
// finished blocks still have their checksums. An error removes the .part file; a killed process leaves it.
Result<void> pack_to_file(const ImageSource& source, const ImageHeader& plan, const Path& path,
                          const ProgressFunction& progress);

}  // namespace lily
