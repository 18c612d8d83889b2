# Writes OUT, a C++ file that defines bundled_sources() of sources.h: the text of FILES, paths from ROOT, with commas between.
string(REPLACE "," ";" files "${FILES}")
set(rows "")
foreach(file IN LISTS files)
  file(READ "${ROOT}/${file}" text)
  string(APPEND rows "    {\"${file}\", R\"__source__(${text})__source__\"},\n")
endforeach()
file(WRITE "${OUT}" "// Made by embed.cmake.\n#include \"backend/gpu/metal/sources.h\"\n
namespace lily::gpu::metal {\nnamespace {\nconstexpr SourceFile kFiles[] = {\n${rows}};\n}  // namespace\n
std::span<const SourceFile> bundled_sources() {\n  return kFiles;\n}\n}  // namespace lily::gpu::metal\n")
