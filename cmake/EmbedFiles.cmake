# cmake -DOUT=file.cc -DFOLDER=dir "-DFILES=a;b" -P EmbedFiles.cmake: files as bytes in a program, in the order of FILES.
set(arrays "")
set(rows "")
foreach(file IN LISTS FILES)
  file(READ "${FOLDER}/${file}" hex HEX)
  string(LENGTH "${hex}" n_digits)
  math(EXPR n_bytes "${n_digits} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(MAKE_C_IDENTIFIER "${file}" name)
  string(APPEND arrays "const unsigned char ${name}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${file}\", {reinterpret_cast<const char*>(${name}), ${n_bytes}}},\n")
endforeach()
file(WRITE "${OUT}" "// Made by cmake/EmbedFiles.cmake.
#include \"server/embedded.h\"

namespace {
${arrays}}  // namespace

namespace lily::server {

const std::vector<EmbeddedFile>& embedded_files() {
  static const std::vector<EmbeddedFile> files{
${rows}  };
  return files;
}

}  // namespace lily::server
")
